"""Imports anybody's WARC, ARC and WACZ files into a collection, as if it had crawled them."""
