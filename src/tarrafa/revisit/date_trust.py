"""Decides whether a host's Last-Modified and sitemap dates can be trusted.

A Last-Modified, or a sitemap's lastmod, is a claim about when a page last changed; visits can confirm or refute it. A
host's dates are trusted once they were right a few times and as long as they are hardly ever wrong. A change is a
change of the page's text, not of its markup: a date that moves for an advertisement is wrong for us.
"""

from typing import NamedTuple

RIGHT_MIN = 2  # right this often before a host is trusted
WRONG_SHARE_MAX = 0.05
REMEMBERED_MAX = 400  # at this total both counts are halved: servers are reconfigured
SLACK_S = 2.0  # clocks differ, and dates have no fractions


class DateTrust(NamedTuple):
    """How often a host's dates were right and wrong."""

    right: int = 0
    wrong: int = 0

    @property
    def is_trusted(self) -> bool:
        return self.right >= RIGHT_MIN and self.wrong <= WRONG_SHARE_MAX * (self.right + self.wrong)

    def updated(self, verdict: bool | None) -> "DateTrust":
        """The counts after one more verdict; None changes nothing."""
        if verdict is None:
            return self
        right, wrong = self.right + verdict, self.wrong + (not verdict)
        return DateTrust(right // 2, wrong // 2) if right + wrong > REMEMBERED_MAX else DateTrust(right, wrong)


def check_last_modified(changed: bool, before: float, claimed: float, last: float, at: float) -> bool | None:
    """Whether a Last-Modified was right. `before` and `claimed` are the dates of the last visit and of this one (0:
    none given), `last` and `at` the times of those visits. Only for visits that fetched the page: a 304 proves nothing.
    """
    if not claimed:
        return None
    if claimed > at + SLACK_S:
        return False
    if changed:
        return claimed > last - SLACK_S
    return None if not before else abs(claimed - before) <= SLACK_S


def check_sitemap_date(changed: bool, claimed: float, last: float, at: float) -> bool | None:
    """Whether a sitemap was right to claim a change since the last visit. None where it claims no change: its own copy
    may be older than the change.
    """
    if not claimed or claimed <= last + SLACK_S:
        return None
    return changed and claimed <= at + SLACK_S
