"""Rules of the `breadth` order: when a cycle chooses new sites, and how far the walk through a site goes (2^i <= N).

Pure: these are the rules; the rows are in `store/breadth_sites.py`. The other orders decide which URL of a *host* comes
first, and all hosts are visited side by side. Breadth looks for new *sites* (registrable domains), and enters each only
as far as it leads to others.

- The *site table* has one row for each site that is known and not yet visited: the number of its mentions (the sum of
the in-links of its URLs, as the link graph counts them), and its best URL by score. The table has a maximum. A site
that finds it full is left out, not forgotten: its mentions are still counted, and it enters when the table has room, or
when it has more mentions than the least mentioned site in the table, which leaves.
- A *cycle* updates the table and chooses its most mentioned sites; between equals, those with the better URL. A chosen
site never returns to the table in that run.
- A *site session* (a walk) visits one chosen site, one page at a time: first its best URL, then the best of the URLs
known by then. After its i-th page, with N distinct links to other sites on it, the session continues while 2^i <= N:
the second page is fetched if the first links to two pages of other sites or more, the tenth only if the ninth links to
512.

A visit without a page (404, a redirect, excluded by robots.txt) does not count as an i-th page: the next best URL is
tried, a few times. A URL to be tried again waits at the end of its queue, as in every order.

A cycle begins when fewer than half of the sites of a cycle are being fetched or could be: sites that wait for their
host's delay or back-off do not hold up the next cycle. So the next sites are chosen as late as the workers allow, with
as many mentions counted as possible.
Known weakness: early in a run mentions say little, and the link graph is seconds behind.
"""

from enum import IntEnum

FRUITLESS_VISITS_MAX = 5  # visits of one site session without a page


class SiteStage(IntEnum):
    """State of a site in a run."""

    UNHEARD = 0  # no URL of it is pending, and it was not chosen
    HEARD = 1  # some URL of it is pending, but it is not in the table
    LISTED = 2  # in the table
    CHOSEN = 3  # its session runs
    OVER = 4  # its session is over: its other URLs are passed over in this run


def continues_walk(page: int, external: int) -> bool:
    """Whether the session with a site continues after its `page`-th page, from 1, with `external` links to other sites
    on it."""
    return external >> page > 0


def is_cycle_due(under_way: int, cycle: int) -> bool:
    """Whether a new cycle is due, with so many sites being fetched or free to be."""
    return 2 * under_way < max(cycle, 1)
