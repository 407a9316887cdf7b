"""Rules of the `breadth` order: when a cycle chooses new sites, and how far the walk through a site goes (2^i <= N).

Pure: the rules; the rows are in `store/breadth_sites.py`. The other orders say which URL of a *host* comes first, and
all hosts are visited side by side. Breadth looks for new *sites* (registrable domains), and enters each only as far as
it leads to others.

- A *table* has one row for each site that is known and not yet visited: how often it was mentioned (the sum of the
  in-links of its URLs, as the link graph counts them), and its best URL by score. It has a maximum. A site that finds
  it full is left out, not forgotten: its mentions go on being counted, and when the table has room, or when it is
  mentioned more often than the least mentioned one in it, it comes in and the other gives way.
- A *cycle* brings the table up to date and chooses its most mentioned sites; between equals, those with the better
  URL. What was chosen never comes back into the table in that run.
- A *walk* goes through one chosen site, one page at a time: first its best URL, then the best of what is known of it
  by then. After its i-th page, with N distinct links to other sites on it, the walk goes on while 2^i <= N: the
  second
  page is fetched if the first names two other sites' pages or more, the tenth only if the ninth names 512.

A visit that brings no page (404, a redirect, excluded by robots.txt) is no i-th page: the next best URL is tried, a
few times. A URL to be tried again waits at the end of its queue as in every order.

A cycle begins when less than half of one is being fetched or could be: what waits for its host's delay or back-off
keeps nobody waiting. So the next sites are chosen as late as the workers allow, with as many mentions counted as can
be. Known weakness: early in a run mentions say little, and the link graph is seconds behind.
"""

from enum import IntEnum

FRUITLESS_VISITS_MAX = 5  # visits of one walk that brought no page


class SiteStage(IntEnum):
    """Where a site stands."""

    UNHEARD = 0  # nothing of it waits, and it was not chosen
    HEARD = 1  # something of it waits, but it is not in the table
    LISTED = 2  # in the table
    CHOSEN = 3  # being walked
    OVER = 4  # it was: what is left of it is passed over in this run


def continues_walk(page: int, external: int) -> bool:
    """Whether the walk through a site goes on after its `page`-th page, from 1, with so many links to other sites."""
    return external >> page > 0


def is_cycle_due(under_way: int, cycle: int) -> bool:
    """Whether another cycle is to be chosen, with so many sites being fetched or free to be."""
    return 2 * under_way < max(cycle, 1)
