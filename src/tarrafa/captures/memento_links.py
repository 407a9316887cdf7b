"""Memento (RFC 7089): the relations of a capture as a Link header, and TimeMaps in link format and JSON.

Promises: every URI in a header or TimeMap is ASCII and holds no sign that could end it. A long TimeMap has pages; each
names its neighbours and its period (RFC 7089 section 5.1.4). Knows nothing of requests: `ReplayUris` has the addresses.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tarrafa.captures.reader import Capture, Versions
from tarrafa.captures.timestamps import http_date

TIMEMAP_LINKS_MAX = 1_000  # of one page
LINK_FORMAT = "application/link-format"
URI_SIGNS = "%!#$&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class ReplayUris:
    """The addresses of what is said of a URL. `base`: the site, without a slash."""

    base: str
    url: str

    def memento(self, timestamp: str, *, raw: bool = False) -> str:
        return f"{self.base}/web/{timestamp}{'id_' if raw else ''}/{ascii_uri(self.url)}"

    @property
    def timegate(self) -> str:
        return f"{self.base}/web/{ascii_uri(self.url)}"

    def timemap(self, page: int = 1, form: str = "link") -> str:
        number = f"{page}/" if page > 1 else ""
        return f"{self.base}/web/timemap/{form}/{number}{ascii_uri(self.url)}"


def ascii_uri(url: str) -> str:
    return quote(url, safe=URI_SIGNS)


def _link(uri: str, relation: str, **attributes: str) -> str:
    more = "".join(f'; {name}="{value}"' for name, value in attributes.items())
    return f'<{uri}>; rel="{relation}"{more}'


def memento_links(uris: ReplayUris, versions: Versions, shown: Capture) -> str:
    """The Link header of a memento, or of the redirect that leads to it."""
    links = [
        _link(ascii_uri(uris.url), "original"),
        _link(uris.timegate, "timegate"),
        _link(uris.timemap(), "timemap", type=LINK_FORMAT),
    ]
    relations: dict[str, list[str]] = {}
    for relation, one in (
        ("first", versions.first),
        ("prev", versions.previous),
        ("", shown),
        ("next", versions.next),
        ("last", versions.last),
    ):
        if one is not None:
            relations.setdefault(one.timestamp, []).append(relation)
    for timestamp, names in relations.items():
        relation = " ".join([*filter(None, names), "memento"])
        links.append(_link(uris.memento(timestamp), relation, datetime=http_date(timestamp)))
    return ", ".join(links)


def original_links(uris: ReplayUris) -> str:
    return ", ".join([_link(ascii_uri(uris.url), "original"), _link(uris.timemap(), "timemap", type=LINK_FORMAT)])


@dataclass(frozen=True, slots=True)
class TimeMapPage:
    """A page of a TimeMap, counted from 1, with its captures; `total` is of all pages, hidden captures included."""

    page: int
    total: int
    captures: Sequence[Capture]

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // TIMEMAP_LINKS_MAX))


def timemap_links(uris: ReplayUris, found: TimeMapPage) -> Iterator[str]:
    """The lines of a TimeMap in link format."""
    period = {}
    if found.captures:
        period = {"from": http_date(found.captures[0].timestamp), "until": http_date(found.captures[-1].timestamp)}
    links = [
        _link(ascii_uri(uris.url), "original"),
        _link(uris.timegate, "timegate"),
        _link(uris.timemap(found.page), "self", type=LINK_FORMAT, **period),
    ]
    if found.page > 1:
        links.append(_link(uris.timemap(found.page - 1), "prev timemap", type=LINK_FORMAT))
    if found.page < found.pages:
        links.append(_link(uris.timemap(found.page + 1), "next timemap", type=LINK_FORMAT))
    last = len(found.captures) - 1
    for place, capture in enumerate(found.captures):
        ends = (("first", place == 0 and found.page == 1), ("last", place == last and found.page == found.pages))
        relation = " ".join([*(name for name, is_end in ends if is_end), "memento"])
        links.append(_link(uris.memento(capture.timestamp), relation, datetime=http_date(capture.timestamp)))
    yield from (f"{link},\n" for link in links[:-1])
    yield f"{links[-1]}\n"


def timemap_json(uris: ReplayUris, found: TimeMapPage) -> str:
    """The same page as JSON."""
    mementos = [
        {
            "uri": uris.memento(one.timestamp),
            "raw": uris.memento(one.timestamp, raw=True),
            "datetime": http_date(one.timestamp),
            "status": one.status,
            "mime": one.mime,
            "digest": one.digest,
        }
        for one in found.captures
    ]
    fields = {
        "original_uri": ascii_uri(uris.url),
        "timegate_uri": uris.timegate,
        "timemap_uri": uris.timemap(found.page, "json"),
        "page": found.page,
        "pages": found.pages,
        "total": found.total,
        "mementos": mementos,
    }
    return json.dumps(fields) + "\n"
