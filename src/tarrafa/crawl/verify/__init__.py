"""Verification of a data directory: what is damaged or disagrees, how bad it is, and its repair."""
