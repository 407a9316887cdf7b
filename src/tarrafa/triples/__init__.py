"""Here is a pattern: which statements?

What pages state in RDFa, JSON-LD and microdata, each page a named graph under its URL. It follows the archive and can
be made again from it. Only the follower opens the store; everybody else reads what it has published.
"""
