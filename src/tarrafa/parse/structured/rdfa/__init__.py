"""RDFa 1.1 in the attributes of a page."""
