"""The page that shows what changed between two captures of a URL, side by side: /diff, with `url`, `from` and `to`.

Promises: text only, without scripts, images and styles of the archived page; the work and the lines that are shown are
bounded. What is taken down or asks not to be shown is refused as in `memento_routes`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.cdx_params import URL_CHARS_MAX
from tarrafa.captures.memento_links import ReplayUris
from tarrafa.captures.text_diff import DiffLine, compare_texts, with_context
from tarrafa.captures.timestamps import iso_date
from tarrafa.server.captures.memento_routes import find_capture
from tarrafa.server.error_status import UnknownResource
from tarrafa.server.page_responses import NO_URL, PageResponses

CONTEXT_LINES = 3
ROWS_SHOWN_MAX = 5_000


class DiffRow(NamedTuple):
    """A line of the older text beside a line of the newer one; None: there is none. Both None: lines are left out."""

    old: str | None
    new: str | None

    @property
    def is_gap(self) -> bool:
        return self.old is None and self.new is None


class DiffRoutes:
    def __init__(self, store: CaptureStore, pages: PageResponses) -> None:
        self._store, self._pages = store, pages

    def routes(self) -> list[Route]:
        return [Route("/diff", self.diff)]

    def diff(self, request: Request) -> Response:
        url, old, new = (request.query_params.get(name, "").strip() for name in ("url", "from", "to"))
        if not url:
            raise UnknownResource(NO_URL)
        captures = [find_capture(self._store, url[:URL_CHARS_MAX], date) for date in (old, new)]
        before, after = (self._store.read_text(one) for one in captures)
        found = compare_texts(before.lines, after.lines)
        shown = list(side_by_side(with_context(found.lines, CONTEXT_LINES)))
        return self._pages.html(
            request, "capture_diff.html", before=before, after=after, found=found, rows=shown[:ROWS_SHOWN_MAX],
            is_cut=found.is_cut or len(shown) > ROWS_SHOWN_MAX, memento=ReplayUris("", captures[1].url).memento,
            moment=lambda timestamp: iso_date(timestamp).replace("T", " ").replace("Z", " UTC"),
        )  # fmt: skip


def side_by_side(lines: Iterator[DiffLine | None]) -> Iterator[DiffRow]:
    """Removed lines beside the added ones that follow them."""
    removed, added = list[str](), list[str]()

    def pairs() -> Iterator[DiffRow]:
        for place in range(max(len(removed), len(added))):
            left = removed[place] if place < len(removed) else None
            yield DiffRow(left, added[place] if place < len(added) else None)
        removed.clear()
        added.clear()

    for line in lines:
        if line is not None and line.kind == "+":
            added.append(line.text)
        elif line is not None and line.kind == "-":
            if added:
                yield from pairs()
            removed.append(line.text)
        else:
            yield from pairs()
            yield DiffRow(None, None) if line is None else DiffRow(line.text, line.text)
    yield from pairs()
