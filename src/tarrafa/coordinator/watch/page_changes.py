"""Decides whether a visit found a change: a new page, another content, or a page that is gone.

Promises: a page has changed if its main content has, or its text where the content is short (decision 0278), without
the lines that either capture shares with other pages of its host: a menu or counter that moves is no change. A visit is
compared with the newest earlier capture of the same URL, by date, in whichever order files are read; nothing is
remembered of a page in between. Knows nothing of watches.
"""

from itertools import islice

from tarrafa.archive.warc_reader import ArchiveEntry
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.reader import Capture, exact_range
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.coordinator.watch.watch_store import ChangeKind, PageChange
from tarrafa.model import Outcome, Page, UrlRole, VisitRecord, is_inconclusive
from tarrafa.parse.fingerprint import CONTENT_CHARS_MIN, compute_fingerprints
from tarrafa.parse.url import url_id

EARLIER_READ_MAX = 100  # captures among which the last kept page is looked for


def is_page_gone(outcome: Outcome) -> bool:
    """Whether a visit says that there is no page any more; one that failed says nothing."""
    if outcome.kept or outcome.grace or outcome.status < 200 or is_inconclusive(outcome.status):
        return False
    return outcome.status >= 300 or bool(outcome.location)


def find_change(entry: ArchiveEntry, captures: CaptureStore) -> PageChange | None:
    """What a visit changed, if anything. The captures up to this visit are in their index. A page is new once, and gone
    once after each of its captures."""
    record, outcome = entry.record, entry.record.outcome
    if outcome.role == UrlRole.REQUISITE:  # a part of pages
        return None
    at = timestamp_of(outcome.at)
    before = _kept_before(captures, record.url, at)
    if is_page_gone(outcome):
        return page_change("gone", record, before.timestamp, before.timestamp) if before is not None else None
    if not outcome.kept:
        return None
    if before is None:
        return page_change("new", record, "")
    now = next(captures.reader.scan(exact_range(record.url), since=at, until=at, with_noarchive=True), None)
    if now is None or now.digest == before.digest:
        return None
    pages = captures.read_page(before), captures.read_page(now)
    return page_change("changed", record, at, before.timestamp) if _has_other_content(*pages) else None


def page_change(kind: ChangeKind, record: VisitRecord, occasion: str, before: str = "") -> PageChange:
    """`occasion` tells two changes of one kind apart."""
    after = "" if kind == "gone" else timestamp_of(record.outcome.at)
    title = (record.page.headline or record.page.title) if record.page is not None and kind != "gone" else ""
    mark = f"{kind}-{url_id(record.url).hex()}-{occasion}"
    return PageChange(mark, kind, record.url, record.outcome.at, title, before, after)


def _kept_before(captures: CaptureStore, url: str, timestamp: str) -> Capture | None:
    earlier = captures.reader.scan(
        exact_range(url), until=str(int(timestamp) - 1), reverse=True, with_noarchive=True, rows_max=None
    )
    return next((one for one in islice(earlier, EARLIER_READ_MAX) if one.is_success), None)


def _has_other_content(before: Page | None, now: Page | None) -> bool:
    """Whether two captures of a page differ in what the page is about. A capture without a page is another one."""
    if before is None or now is None:
        return before is not now
    shared = _template_lines(before) | _template_lines(now)
    has_content = min(len(before.content), len(now.content)) >= CONTENT_CHARS_MIN
    return _content_id(before, shared, has_content=has_content) != _content_id(now, shared, has_content=has_content)


def _template_lines(page: Page) -> set[str]:
    return {line for start, end in page.template_spans for line in page.text[start:end].split("\n")}


def _content_id(page: Page, shared: set[str], *, has_content: bool) -> str:
    lines = (page.content if has_content else page.text).split("\n")
    text = "\n".join(line for line in lines if line not in shared)
    return compute_fingerprints(f"{page.headline or page.title}\n{text}", has_simhash=False).content_id
