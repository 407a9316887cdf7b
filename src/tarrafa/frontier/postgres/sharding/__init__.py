"""Sharding: which PostgreSQL server holds which sites, and totals over all of them."""
