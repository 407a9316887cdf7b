"""Endpoints for other nodes of the cluster, behind a bearer token."""
