"""A crawl that is killed again and again: every record with bytes is a capture when it ends, each once."""

from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.follower import response_files
from tarrafa.captures.reader import KeyRange
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, kill_group, run_json, wait_until_kept


def records_of(journey: Journey) -> tuple[set[tuple[str, int]], set[str]]:
    """File and offset of the records that are captures, by warcio; and the encodings that servers were offered."""
    places, offered = set[tuple[str, int]](), set[str]()
    for path in response_files(journey.data.archive):
        with path.open("rb") as stream:
            records = ArchiveIterator(stream)
            for record in records:
                if record.rec_type in ("response", "revisit"):
                    places.add((path.name, records.get_record_offset()))
                elif record.rec_type == "request":
                    offered.add(record.http_headers.get_header("Accept-Encoding"))
    return places, offered


def test_a_crawl_that_is_killed_has_every_capture_once(tmp_path: Path) -> None:
    journey = a_journey(tmp_path, World(hosts=12, pages=240))
    with journey.web:
        file = journey.write_collection()
        for goal in (20, 60):
            process = journey.start(file)
            wait_until_kept(journey, process, goal)
            kill_group(process)
        journey.crawl(file)
    store = CaptureStore(journey.data)
    captures = list(store.reader.scan(KeyRange(), with_noarchive=True))
    places = [(one.filename, one.offset) for one in captures if not one.confirms]
    by_warcio, offered = records_of(journey)
    assert len(places) == len(set(places)) and set(places) == by_warcio
    assert offered == {"gzip, deflate, br"}
    known = {(one.url, one.timestamp): one for one in captures}
    kept = [record for record in journey.records() if record.outcome.kept]
    assert kept
    for record in kept:
        capture = known[record.url, timestamp_of(record.outcome.at)]
        if record.page is not None and record.page.text and not capture.noarchive:
            assert store.read_text(capture).text == record.page.text
            assert store.read(capture).body
    shown = run_json("versions", kept[0].url, "--data", journey.data.root)
    assert shown["total"] >= 1
