"""JSON-LD in the scripts of a page."""
