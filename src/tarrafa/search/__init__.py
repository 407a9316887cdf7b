"""Search: finds, ranks and shows the pages that match a request, over local and remote shards.

`query_parser` parses the query text and `query_builder` builds the tantivy query. `local_shard` searches an index of
this machine, `remote_shard` that of another machine; `scatter_gather` merges the results of all shards, and of the
parts of one; `duplicates_and_site_diversity` groups copies into one hit and limits the hits of one site, `snippet`
chooses the text that is shown and the words that are marked. `spelling`, `autocomplete` and `query_expansion` find
words that were not typed (`vocabulary`); `curation` applies the rules of the operator. Library, command line and web
page all call `searcher`.
"""
