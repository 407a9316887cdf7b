"""Full-text index: follows the archive into tantivy and can be rebuilt from it.

`text_analysis` makes terms and pairs of words, `document_fields` and `document_builder` make a document of a visit,
`follower` writes to tantivy, seconds behind the crawl, `anchor_refresh` finds pages to be written again, and `reader`
searches. The index can be rebuilt from the archive at any time.
"""
