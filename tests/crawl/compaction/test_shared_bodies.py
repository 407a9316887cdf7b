"""Erasure of a URL whose body records of other URLs refer to: requisites are archived once for all of their URLs."""

import random
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcExchange, WarcWriter, sha1_digest
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.reader import CapturesReader
from tarrafa.crawl.compaction import erasure
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.crawl.compaction.erase_orders import order_erasure
from tarrafa.model import Outcome, UrlRole, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tests.captures.archived_site import COLLECTION, DAY_S, FIRST_AT, new_archive
from tests.crawl.compaction.killed_process import FAR_FUTURE
from tests.crawl.compaction.test_compaction_killed import run_killed
from tests.crawl.compaction.test_erasure import files_with
from tests.crawl.compaction.versions import assert_clean, follow_all
from tests.crawl.verify.conftest import copy_of
from tests.warc_check import check_warc_file

OURS, THEIRS, OTHER = "http://cdn.test/lib.js", "http://www.site.test/lib.js", "http://third.test/copy.js"
BODY = b"console.log('uma rede de pesca')\r\n\r\n" * 40
KILLS, SEED = 3, 23


def write_requisites(data: DataDirectory, *, in_one_file: bool) -> None:
    """A body of one URL, and two URLs that refer to it, as a worker writes them."""
    writer = WarcWriter(data.archive, "w1", FIRST_AT)
    for number, url in enumerate((OURS, THEIRS, OTHER)):
        at, digest = FIRST_AT + number * DAY_S, sha1_digest(BODY)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nX-Server: {number}\r\n\r\n".encode()
        exchange = WarcExchange(url, at, b"GET / HTTP/1.1\r\n\r\n", head + BODY, len(head), payload=digest)
        if number:
            exchange = replace(exchange, archived_payload=digest, archived_at=FIRST_AT, archived_url=OURS)
        outcome = Outcome(200, at, role=UrlRole.REQUISITE, payload=digest, same_as=OURS if number else "")
        writer.append(VisitRecord(COLLECTION, url, 1, 1, outcome), exchange)
        if not in_one_file:
            writer.close()
    writer.close()
    follow_all(data)


@pytest.fixture(params=[True, False], ids=["one file", "several files"])
def data(tmp_path: Path, request: pytest.FixtureRequest) -> DataDirectory:
    data = new_archive(tmp_path / "data")
    write_requisites(data, in_one_file=request.param)
    return data


def erase(data: DataDirectory, target: str) -> list[str]:
    order_erasure(data, parse_target(target), "ana", "court order 12", FIRST_AT)
    return compact(data, who="ana", now=FAR_FUTURE).erased


def body_of(data: DataDirectory, url: str) -> bytes:
    store = CaptureStore(data)
    return store.read(store.find(url)).body


def test_urls_with_the_same_bytes_keep_them(data):
    assert body_of(data, THEIRS) == BODY
    assert erase(data, "host:cdn.test") == ["host:cdn.test"]
    assert CapturesReader(data).captures_of(OURS) == []
    assert [body_of(data, THEIRS), body_of(data, OTHER)] == [BODY, BODY]
    assert_clean(data)
    for path in data.archive.glob("*.warc.gz"):
        check_warc_file(path)
    assert erase(data, THEIRS) == [THEIRS]
    assert body_of(data, OTHER) == BODY
    assert erase(data, OTHER) == [OTHER]
    assert files_with(data, b"uma rede") == []


def test_urls_that_are_erased_together_keep_nothing(data):
    for target in ("host:cdn.test", "site:site.test", OTHER):
        order_erasure(data, parse_target(target), "ana", "court order 12", FIRST_AT)
    assert len(compact(data, who="ana", now=FAR_FUTURE).erased) == 3
    assert files_with(data, b"uma rede") == []


@pytest.mark.parametrize("step", ["_erase_records", "_forget_in_frontier"])
def test_an_erasure_that_was_interrupted_is_completed_by_the_next_run(data, monkeypatch, step):
    monkeypatch.setattr(erasure.Erasure, step, lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        erase(data, "host:cdn.test")
    monkeypatch.undo()
    assert [body_of(data, THEIRS), body_of(data, OTHER)] == [BODY, BODY]
    assert compact(data, now=FAR_FUTURE).erased == ["host:cdn.test"]
    assert [body_of(data, THEIRS), body_of(data, OTHER)] == [BODY, BODY]
    assert CapturesReader(data).captures_of(OURS) == []


def test_a_legal_hold_keeps_the_bytes_of_its_url_whatever_url_they_were_archived_of(data):
    record_action(data, "hold", parse_target(THEIRS), "ana", "case 12", FIRST_AT)
    assert erase(data, "host:cdn.test") == ["host:cdn.test"]
    assert body_of(data, THEIRS) == BODY


def test_killed_at_any_moment_no_other_url_loses_its_bytes(data, tmp_path):
    order_erasure(data, parse_target("host:cdn.test"), "ana", "court order 12", FIRST_AT)
    whole, rng = copy_of(data, tmp_path / "whole"), random.Random(SEED)
    committed, calls = map(int, run_killed(whole, 0, "erase").stdout.split())
    for number in range(KILLS):
        killed = copy_of(data, tmp_path / f"killed{number}")
        at = rng.randrange(committed, calls) if number % 2 else rng.randrange(1, calls)
        assert run_killed(killed, at, "erase").returncode == -signal.SIGKILL
        compact(killed, now=FAR_FUTURE)
        assert [body_of(killed, THEIRS), body_of(killed, OTHER)] == [BODY, BODY], at
        assert CapturesReader(killed).captures_of(OURS) == []
        assert_clean(killed)
