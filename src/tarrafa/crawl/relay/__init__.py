"""Relay: visits that external crawlers make over HTTP."""
