"""Dry run: scope check and estimate of a collection."""
