"""Selection: which captures an export takes, by collection, site, URL prefix, dates, status, or a list of URLs.

Promises: every condition must hold; of several sites, prefixes and URLs one is enough. Captures that are hidden in
`captures/reader` (taken down, `noarchive`) are never selected. A condition that cannot be read, and a collection that
is unknown, is a `ConfigError`. Knows nothing of files to write.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tarrafa.captures.cdx_params import key_range
from tarrafa.captures.reader import Capture, CapturesReader, KeyRange, exact_range
from tarrafa.captures.timestamps import earliest, from_typed_date, latest
from tarrafa.errors import ConfigError
from tarrafa.parse.url import canonical

STATUS_DIGITS = 3
PARTS_MAX = 1_000  # sites and prefixes
DESCRIPTION_CHARS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Selection:
    """`urls`: None selects by sites and prefixes, or everything. `statuses`: beginnings, such as 2 or 404. `since`,
    `until`: timestamps of 14 digits."""

    collection: str | None = None
    sites: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    statuses: tuple[str, ...] = ()
    urls: tuple[str, ...] | None = None

    @property
    def is_everything(self) -> bool:
        return self == Selection()

    def accepts(self, capture: Capture) -> bool:
        return not self.statuses or capture.status.startswith(self.statuses)

    def of_urls(self, urls: Sequence[str]) -> "Selection":
        """The same, of these URLs only."""
        return replace(self, urls=tuple(urls))

    def describe(self) -> str:
        """The conditions in one line, for people and for the head of the file."""
        parts = [f"collection {self.collection}"] if self.collection else []
        parts += [f"site {site}" for site in self.sites] + [f"prefix {prefix}" for prefix in self.prefixes]
        parts += [f"from {self.since}"] if self.since else []
        parts += [f"to {self.until}"] if self.until else []
        parts += [f"status {' or '.join(self.statuses)}"] if self.statuses else []
        parts += [f"{len(self.urls)} URLs of a search"] if self.urls is not None else []
        return ", ".join(parts)[:DESCRIPTION_CHARS_MAX] or "everything"


def parse_selection(
    collection: str | None = None,
    sites: Sequence[str] = (),
    prefixes: Sequence[str] = (),
    since: str = "",
    until: str = "",
    statuses: Sequence[str] = (),
) -> Selection:
    """The selection that people type."""
    if len(sites) + len(prefixes) > PARTS_MAX:
        raise ConfigError(f"--site and --prefix: at most {PARTS_MAX:,} together")
    for status in statuses:
        if not (status.isascii() and status.isdigit() and len(status) <= STATUS_DIGITS):
            raise ConfigError(f"--status {status[:40]!r}: write a status or its first digit: 200, 404, 3")
    for prefix in prefixes:
        if canonical(prefix) is None:
            raise ConfigError(f"--prefix {prefix[:200]!r}: write the beginning of a URL: https://www.example.br/news/")
    names = tuple(map(_site_name, sites))
    first, last = _typed("--since", since), _typed("--until", until)
    return Selection(
        collection, names, tuple(prefixes), earliest(first) if first else "", latest(last) if last else "",
        tuple(statuses),
    )  # fmt: skip


def _site_name(text: str) -> str:
    url = canonical(text if "://" in text else f"http://{text}/")
    if url is None or not text.strip():
        raise ConfigError(f"--site {text[:200]!r}: write a domain: example.br, www.example.br, localhost:8000")
    return url.partition("://")[2].partition("/")[0]


def _typed(name: str, date: str) -> str:
    if not date:
        return ""
    found = from_typed_date(date)
    if found is None:
        raise ConfigError(f"{name} {date[:40]!r}: not a date: write 2026, 2026-11, 2026-11-18 or 20261118203000")
    return found


def selected_captures(reader: CapturesReader, selection: Selection) -> Iterator[Capture]:
    """The captures of a selection. One that is in several of its parts may come several times."""
    if selection.collection is not None and selection.collection not in (names := reader.collections()):
        raise ConfigError(
            f"no collection named {selection.collection!r} has captures (there are: {', '.join(names) or 'none'})"
        )
    for keys, url in key_ranges(selection):
        found = reader.scan(
            keys, since=selection.since, until=selection.until, rows_max=None, collection=selection.collection
        )
        yield from (one for one in found if (not url or one.url == url) and selection.accepts(one))


def key_ranges(selection: Selection) -> Iterator[tuple[KeyRange, str]]:
    """Ranges of keys; with a URL only its own captures of the range, which may also have others."""
    if selection.urls is not None:
        yield from ((exact_range(url), url) for url in selection.urls)
        return
    if not (selection.sites or selection.prefixes):
        yield KeyRange(), ""
    for site in selection.sites:
        url = f"http://{site}/"
        yield key_range(url, "host"), ""
        yield key_range(url, "domain"), ""
        yield _other_ports(url), ""
    for prefix in selection.prefixes:
        yield key_range(prefix, "prefix"), ""


def _other_ports(url: str) -> KeyRange:
    """The name of a host with a port, which sorts apart from its domain."""
    name = key_range(url, "host").first.partition(")")[0]
    return KeyRange(f"{name}:", f"{name};")
