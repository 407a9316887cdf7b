"""Link graph: follows the archive into SQLite, with in-links, anchors, depths and PageRank.

One SQLite file holds every URL that is linked or fetched, with its in-links and out-links, their anchor texts, and its
depth. In-links, depths and ranks go back to the frontier as absolute values, seconds later. `follower` writes; `reader`
reads, in any number of processes. From time to time the follower starts `ranking_process`, which computes the ranks of
pages (`pagerank`) and the sums of hosts and sites (`sites`) over the whole graph. All of it can be rebuilt from the
archive at any time.
"""
