"""Errors of the crawler API, each with its HTTP status.

Refusal
├── Malformed    400   it cannot be understood
├── Unknown      404   nobody ever gave it that visit
├── Conflict     409   it contradicts what was said before
├── Lost         410   it was, but is no longer the crawler's
├── TooLarge     413   more than a call may hold
└── Crowded      503   no room for one more; ask again later
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
