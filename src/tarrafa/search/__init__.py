"""Search: finds, ranks and shows the pages that match a request, over local and remote shards.

`query` reads what a person typed, `matching` says it to the index, `local` is the index of this machine (`joined`, if
it is in parts), `remote` that of another (`missing`, if it is known to be away), `asking` puts the answers of all
together, `copies` makes one hit of pages that say the same, `snippet` shows why. `spelling`, `suggesting` and
`expansion` find words that nobody typed (`vocabulary`); `curation` and `withheld` know what those who run the engine
want. The library, the command line and the web page all call `searcher`.
"""
