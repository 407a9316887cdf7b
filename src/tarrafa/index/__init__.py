"""Full-text index: follows the archive into tantivy and can be rebuilt from it.

Follows the archive into a tantivy index, seconds behind the crawl: `analysis` makes terms of words, `documents` makes
a document of a visit, `follower` writes, `reader` looks up. Can be made again from the archive at any time.
"""
