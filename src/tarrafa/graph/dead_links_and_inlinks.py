"""Counts the dead links and the distribution of in-links of one collection, for its report.

Sums over the nodes of one collection: one pass over them, and a look-up for each dead link. A link here is a pair of
different URLs, however often one names the other. Promises: reads beside the follower; None while there is no graph.
Knows nothing of reports.
"""

import msgspec

from tarrafa.graph.graph_writer import graph_exists, graph_file
from tarrafa.model import GONE, Status
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import Count
from tarrafa.runtime.sqlite import rows

DEAD_STATUSES = tuple(sorted(GONE | {Status.NAME_UNKNOWN}))  # the page does not exist, permanently
LISTED_MAX = 10


class LinkedUrl(msgspec.Struct, frozen=True):
    """A URL and a number of links: its in-links, or links on it."""

    url: str
    links: Count
    status: int = 0


class GraphStatistics(msgspec.Struct, frozen=True):
    """A collection's part of the graph. `in_links`: the number of fetched pages by number of in-links."""

    urls: Count
    links: Count
    links_followed: Count  # of these, links to visited URLs
    in_links: list[tuple[Count, Count]]
    dead_urls: Count
    dead_links: Count
    most_wanted: list[LinkedUrl]  # dead URLs with the most linking pages
    pages_worst: list[LinkedUrl]  # pages with the most dead links


def graph_statistics(data: DataDirectory, collection: str) -> GraphStatistics | None:
    """The statistics of a collection; None without a graph."""
    if not graph_exists(data):
        return None
    dead = ", ".join(str(int(status)) for status in DEAD_STATUSES)
    own = "collection = (SELECT collection FROM collections WHERE name = ?1)"
    gone = f"FROM nodes WHERE {own} AND status IN ({dead})"
    with graph_file(data).reading() as connection:
        urls, links, followed = rows(
            connection,
            "SELECT count(*), ifnull(sum(in_links), 0), ifnull(sum(in_links) FILTER (WHERE visit >= 0), 0)"  # noqa: S608
            f" FROM nodes WHERE {own}",
            (collection,),
        )[0]
        spread = rows(
            connection,
            f"SELECT in_links, count(*) FROM nodes WHERE {own} AND status = 200 GROUP BY 1 ORDER BY 1",  # noqa: S608
            (collection,),
        )
        dead_urls, dead_links = rows(
            connection,
            f"SELECT count(*), ifnull(sum(in_links), 0) {gone}",
            (collection,),
        )[0]
        wanted = rows(
            connection,
            f"SELECT url, in_links, status {gone} AND in_links > 0 ORDER BY in_links DESC, url LIMIT ?2",
            (collection, LISTED_MAX),
        )
        worst = rows(
            connection,
            f"""SELECT n.url, found.links FROM
                  (SELECT src, count(DISTINCT dst) AS links FROM edges
                   WHERE dst IN (SELECT node {gone}) AND src <> dst GROUP BY src ORDER BY 2 DESC, 1 LIMIT ?2) found
                JOIN nodes n ON n.node = found.src ORDER BY 2 DESC, 1""",  # noqa: S608
            (collection, LISTED_MAX),
        )
    return GraphStatistics(
        urls, links, followed, spread, dead_urls, dead_links,
        [LinkedUrl(*row) for row in wanted], [LinkedUrl(*row) for row in worst],
    )  # fmt: skip
