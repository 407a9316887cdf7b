"""Link graph: follows the archive into SQLite, with in-links, anchors, depths and PageRank.

Follows the archive into one SQLite file: every URL that anybody linked to, fetched or not, with its in-links and
out-links, their anchor texts, and its depth. What it learns goes back to the frontier as absolute values, seconds
later: `follower` writes, `reader` answers, any number of them at once. Now and then a `survey` computes over all of
it the ranks of pages (`pagerank`) and the sums of hosts and sites (`sites`). All of it can be made again from the
archive at any time.
"""
