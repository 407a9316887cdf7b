"""How many of the hosts that it could visit may a node visit, so as not to use more of its processors than it may?

A controller in one line: above the limit, a fifth fewer; well below it, a twentieth more; once a second. So a limit
that is set holds within some ten seconds, and what a burst took is given back within a minute. Pure.
"""

SHARE_MIN = 0.01
DECREASE, INCREASE = 0.8, 1.05
WELL_BELOW = 0.9  # of the limit: in between nothing changes, or it would never rest


def next_host_share(share: float, used: float, limit: float | None) -> float:
    """The share of the next second. `used` and `limit` are of all processors, 0…1; no limit: everything."""
    if limit is None:
        return 1.0
    if used > limit:
        return max(SHARE_MIN, share * DECREASE)
    if used < limit * WELL_BELOW:
        return min(1.0, share * INCREASE)
    return share
