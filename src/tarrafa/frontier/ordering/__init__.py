"""Orders of discovery: which URL is visited first. Pure functions."""
