"""Rebalancing, about to be removed."""
