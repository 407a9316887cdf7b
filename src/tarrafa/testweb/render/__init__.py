"""Renders the resources of the synthetic Web: HTML, structured data, files, robots.txt, sitemaps."""
