"""Triple store: the RDF statements of pages, in one named graph per page; follows the archive.

Holds the RDFa, JSON-LD and microdata of pages, each page as a named graph under its URL. The store can be rebuilt from
the archive. Only the follower opens it; all other processes read published snapshots.
"""
