"""Here is a question: which ten pages answer it best?

`query` reads what a person typed, `matching` says it to the index, `searcher` ranks what comes back, `copies` makes one
hit of pages that say the same, `snippet` shows why. The library, the command line and the web page all call `searcher`.
"""
