"""Who links to whom, and who matters?

Follows the archive into one SQLite file: every URL that anybody linked to, fetched or not, with its in-links and
out-links, their anchor texts, and its depth. What it learns goes back to the frontier as absolute values, seconds
later: `follower` writes, `reader` answers, any number of them at once. Can be made again from the archive at any time.
"""
