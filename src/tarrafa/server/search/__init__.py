"""Search pages and their formats for programs."""
