"""Triple store: the RDF statements of pages, in one named graph per page; follows the archive.

What pages state in RDFa, JSON-LD and microdata, each page a named graph under its URL. It follows the archive and can
be made again from it. Only the follower opens the store; everybody else reads what it has published.
"""
