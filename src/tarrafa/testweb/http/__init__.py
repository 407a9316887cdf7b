"""Serves the synthetic Web over HTTP and TLS, and logs the requests."""
