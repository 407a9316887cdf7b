"""Errors of the crawler API, each with its HTTP status.

CrawlerApiError
├── MalformedCall     400   the call cannot be decoded
├── UnknownVisit      404   the visit was never assigned to the crawler
├── ConflictingCall   409   the call contradicts an earlier one
├── LostVisit         410   the visit is no longer the crawler's
├── CallTooLarge      413   the call exceeds a maximum
└── TooManyCrawlers   503   no room for another crawler; retry later
"""

from tarrafa.errors import TarrafaError


class CrawlerApiError(TarrafaError):
    """One sentence for a crawler, and the HTTP code that goes with it."""

    code = 400


class MalformedCall(CrawlerApiError):
    """It cannot be understood."""


class UnknownVisit(CrawlerApiError):
    """Nobody ever gave it that visit."""

    code = 404


class ConflictingCall(CrawlerApiError):
    """It contradicts what was said before."""

    code = 409


class LostVisit(CrawlerApiError):
    """It was, but is no longer the crawler's."""

    code = 410


class CallTooLarge(CrawlerApiError):
    """More than a call may hold."""

    code = 413


class TooManyCrawlers(CrawlerApiError):
    """No room for one more."""

    code = 503
