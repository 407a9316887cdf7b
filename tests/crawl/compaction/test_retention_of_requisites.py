"""Retention in a faithful collection: a version of a page that stays keeps the requisites that it was shown with."""

from pathlib import Path

import msgspec
import pytest

from tarrafa import config
from tarrafa.archive.warc_writer import WarcExchange, sha1_digest
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.reader import CapturesReader
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.config.sections import ArchiveConfig, Collection, ScopeConfig
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.model import CollectionNote, Outcome, UrlRole, VisitRecord
from tests.captures.archived_site import COLLECTION, DAY_S, FIRST_AT, PAGE, SiteArchive, new_archive
from tests.crawl.compaction.versions import follow_all

STABLE, STYLE = "http://www.site.test/stable.html", "http://cdn.test/style.css"


def write_requisite(site: SiteArchive, number: int, at: float, body: bytes) -> None:
    head, digest = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n\r\n", sha1_digest(body)
    exchange = WarcExchange(STYLE, at, b"GET / HTTP/1.1\r\n\r\n", head + body, len(head), payload=digest)
    outcome = Outcome(200, at, role=UrlRole.REQUISITE, payload=digest)
    site.writer.append(VisitRecord(COLLECTION, STYLE, number, 1, outcome), exchange)


def note_definition(site: SiteArchive, keep: str) -> None:
    scope = msgspec.convert({"keep": keep}, ScopeConfig)
    definition = Collection(COLLECTION, scope=scope, archive=ArchiveConfig(retention="last 1"))
    note = CollectionNote(COLLECTION, 1, msgspec.Raw(config.encode_collection(definition)), 1)
    site.writer.append_note(note, FIRST_AT)


@pytest.mark.parametrize("keep", ["faithful", "all"])
def test_a_page_keeps_the_style_of_its_time(tmp_path: Path, keep: str) -> None:
    data = new_archive(tmp_path / "data")
    site = SiteArchive(data)
    note_definition(site, keep)
    site.visit(STABLE, FIRST_AT, b"<p>stable</p>", text="stable")
    for number in range(3):
        at = FIRST_AT + number * DAY_S
        site.visit(PAGE, at, b"<p>%d</p>" % number, text=str(number))
        write_requisite(site, number + 1, at, b"p { color: #00%d }" % number)
    site.close()
    follow_all(data)
    compact(data)
    assert len(CapturesReader(data).captures_of(PAGE)) == 1
    assert len(CapturesReader(data).captures_of(STYLE)) == (3 if keep == "faithful" else 1)
    store = CaptureStore(data)
    shown = store.read(store.find(STYLE, timestamp_of(FIRST_AT))).body
    assert (shown == b"p { color: #000 }") == (keep == "faithful")
