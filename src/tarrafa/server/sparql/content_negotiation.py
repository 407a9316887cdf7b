"""Content negotiation: chooses a media type by the Accept header (RFC 9110).

Promises: the form with the greatest weight of `Accept` (RFC 9110, section 12.5.1), the most exact range counting;
among equals the one that we offer first; None where nothing fits. Nothing that can be sent is an error. Knows nothing
of what is in a form.
"""

from collections.abc import Sequence
from typing import NamedTuple

HEADER_CHARS_MAX = 2_000


class MediaTypeOffer(NamedTuple):
    """A form under one of its media types."""

    media_type: str
    form: str


class _MediaRange(NamedTuple):
    kind: str
    subkind: str
    weight: float

    def exactness(self, media_type: str) -> int:
        """0: it does not cover this type; the greater, the more exactly it does."""
        kind, _, subkind = media_type.partition("/")
        if (self.kind, self.subkind) == (kind, subkind):
            return 3
        if (self.kind, self.subkind) == (kind, "*"):
            return 2
        return int((self.kind, self.subkind) == ("*", "*"))


def negotiate(accept: str, offers: Sequence[MediaTypeOffer]) -> MediaTypeOffer | None:
    """What to send; without an `Accept`, what is offered first."""
    ranges = _ranges(accept)
    if not ranges:
        return offers[0]
    best, greatest = None, 0.0
    for offer in offers:
        weight = _weight(ranges, offer.media_type)
        if weight > greatest:
            best, greatest = offer, weight
    return best


def _weight(ranges: list[_MediaRange], media_type: str) -> float:
    covering = [(one.exactness(media_type), one.weight) for one in ranges]
    return max(covering, default=(0, 0.0))[1] if any(exactness for exactness, _ in covering) else 0.0


def _ranges(accept: str) -> list[_MediaRange]:
    found = []
    for part in accept[:HEADER_CHARS_MAX].split(","):
        name, *parameters = part.split(";")
        kind, slash, subkind = name.strip().lower().partition("/")
        if slash and kind and subkind:
            found.append(_MediaRange(kind, subkind, _quality(parameters)))
    return found


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(max(float(value), 0.0), 1.0)
            except ValueError:
                return 0.0
    return 1.0
