"""The index follows the archive: what was kept is findable, what is gone is not, whatever crashes in between."""

import multiprocessing
import os
import random
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec
import pytest
import tantivy

from tarrafa.archive import projection
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.errors import DataError, DiskFull
from tarrafa.graph import follower as graph
from tarrafa.index import index_state, schema
from tarrafa.index.document_fields import domains_of_host, join_url_ids, site_number, split_url_id
from tarrafa.index.follower import IndexFollower, behind, catch_up, follow, rebuild
from tarrafa.index.reader import IndexReader
from tarrafa.index.text_analysis import readings
from tarrafa.model import CollectionNote, Link, PageDate, RobotsMeta
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import COLLECTION, a_record, new_data, small_web, write

A, B, C = (f"http://{name}.test/" for name in "abc")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def urls(data: DataDirectory, word: str, field: str = schema.ALL) -> list[str]:
    """The pages that hold the word in one of its readings, or exactly, in a raw field."""
    snapshot = IndexReader(data).snapshot()
    terms = [reading[0] for reading in readings(word)] if field in (schema.ALL, schema.TITLE) else [word]
    matches = snapshot.top_matches(tantivy.Query.term_set_query(schema.SCHEMA, field, terms), 1000)
    assert matches.total == len(matches)
    return sorted(snapshot.stored_document(place).url for place in matches.addresses())


def contents(data: DataDirectory) -> set[schema.StoredDocument]:
    snapshot = IndexReader(data).snapshot()
    shown = [
        snapshot.stored_document(place) for place in snapshot.top_matches(tantivy.Query.all_query(), 10_000).addresses()
    ]
    assert len(shown) == len(set(shown)) == snapshot.documents, "a document twice"
    return set(shown)


def test_a_kept_page_is_found_by_title_heading_body_anchor_host_language_and_any_domain_above_it(data):
    url = "http://www.ufmg.br/x"
    page = a_record(url, title="Redes de pesca", text="o corpo", headings=("Cabeçalho grande",), language="pt-BR")
    write(data, [page, a_record(A, links=[Link(url, "uma tarrafa")], text="outro")])
    graph.catch_up(data, lambda name, weights: None)
    assert catch_up(data) == 2
    for word in ("rede", "pescas", "CORPO", "cabecalhos", "tarrafas"):
        assert urls(data, word) == [url], word
    assert urls(data, "redes", schema.TITLE) == [url]
    assert urls(data, "corpo", schema.TITLE) == []
    for domain in ("www.ufmg.br", "ufmg.br", "br"):
        assert urls(data, domain, schema.SITE) == [url]
    assert urls(data, "www.ufmg.br", schema.HOST) == [url]
    assert urls(data, "ufmg.br", schema.HOST) == []
    assert urls(data, "pt", schema.LANGUAGE) == [A, url]
    assert urls(data, COLLECTION, schema.COLLECTION) == [A, url]


def test_a_collection_that_joins_later_has_the_sites_of_its_own_suffixes(data):
    config = msgspec.Raw(b'{"network": {"suffixes": ["br.test"]}}')
    archive = WarcWriter(data.archive, "one", 1.0)
    archive.append_note(CollectionNote("first", 1, msgspec.Raw(b"{}")), 1.0)
    archive.append(msgspec.structs.replace(a_record(A, text="um"), collection="first"), None)
    archive.append_note(CollectionNote("second", 1, config), 2.0)
    archive.append(
        msgspec.structs.replace(a_record("http://www.loja.br.test/", text="dois"), collection="second"), None
    )
    archive.prepare_commit()()
    archive.close()
    catch_up(data)
    matches = IndexReader(data).snapshot().top_matches(tantivy.Query.all_query(), 10)
    sites = dict(zip(matches.field_values(schema.ID_HIGH), matches.field_values(schema.SITE_ID), strict=True))
    assert sites[split_url_id(url_id("http://www.loja.br.test/"))[0]] == site_number("loja.br.test")


def test_english_pages_meet_their_plurals_and_unknown_languages_their_words(data):
    write(data, [a_record(A, text="libraries", language="en"), a_record(B, text="Élèves", language="fr")])
    catch_up(data)
    assert urls(data, "library") == [A]
    assert urls(data, "eleves") == [B]


def test_a_newer_visit_replaces_the_page_and_an_older_one_changes_nothing(data):
    write(data, [a_record(A, 5, text="velho")])
    catch_up(data)
    write(data, [a_record(A, 7, text="novo"), a_record(A, 6, text="tarde")], "w2")
    catch_up(data)
    assert (urls(data, "velho"), urls(data, "novo"), urls(data, "tarde")) == ([], [A], [])
    assert len(contents(data)) == 1


GONE = [{"status": 404}, {"status": 410}, {"status": 301, "location": B}, {"status": 403}, {"status": -7}]
GONE += [{"robots": RobotsMeta(noindex=True), "text": "velho"}, {"kept": False, "text": "velho"}]


@pytest.mark.parametrize("visit", GONE)
def test_a_page_that_the_web_takes_back_is_not_found_and_stays_away(data, visit):
    write(data, [a_record(A, 1, text="velho"), a_record(B, 1, text="velho")])
    catch_up(data)
    write(data, [a_record(A, 3, **visit)], "w2")
    catch_up(data)
    assert urls(data, "velho") == [B]
    write(data, [a_record(A, 2, text="velho")], "w3")
    catch_up(data)
    assert urls(data, "velho") == [B], "a late file must not bring it back"
    write(data, [a_record(A, 4, text="volta")], "w4")
    catch_up(data)
    assert urls(data, "volta") == [A]


@pytest.mark.parametrize("status", [304, 500, 503, 429, -10, -11, -12, -13, 599])
def test_the_weather_of_the_web_takes_nothing_away(data, status):
    write(data, [a_record(A, 1, text="velho"), a_record(A, 2, status=status)])
    catch_up(data)
    assert urls(data, "velho") == [A]


def test_collections_hold_the_same_url_apart(data):
    write(data, [a_record(A, 1, text="um"), a_record(A, 1, text="dois", collection="outra")])
    catch_up(data)
    assert len(contents(data)) == 2
    write(data, [a_record(A, 2, status=404)], "w2")
    catch_up(data)
    assert [shown.collection for shown in contents(data)] == ["outra"]


@pytest.mark.parametrize(
    ("said", "date"),
    [
        (None, "2026-09-21T14:13:20Z seen"),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "2015-10-21T07:28:00Z changed"),
        ("Wed, 21 Oct 2065 07:28:00 GMT", "2026-09-21T14:13:20Z seen"),
        ("Mon, 21 Sep 2026 14:13:10 GMT", "2026-09-21T14:13:20Z seen"),  # the time of the answer
        ("Thu, 01 Jan 1970 00:00:01 GMT", "2026-09-21T14:13:20Z seen"),
        ("yesterday", "2026-09-21T14:13:20Z seen"),
    ],
)
def test_the_date_shown_is_the_servers_if_it_can_be_true(data, said, date):
    write(data, [a_record(A, text="um", last_modified=said)])
    catch_up(data)
    assert [f"{shown.date} {shown.date_kind}" for shown in contents(data)] == [date]


MAY_2009 = 1_242_518_400
STATED = {"published": PageDate(MAY_2009, "url"), "modified": PageDate(MAY_2009 + 1, "meta", has_time=True)}
OTHERS = {"announced": MAY_2009 + 2.0, "last_modified": "Sun, 17 May 2009 00:00:03 GMT"}


@pytest.mark.parametrize(
    ("known", "date"),
    [
        (STATED | OTHERS, "2009-05-17T00:00:00Z published"),
        ({"modified": STATED["modified"]} | OTHERS, "2009-05-17T00:00:01Z changed"),
        (OTHERS, "2009-05-17T00:00:02Z changed"),
        (OTHERS | {"announced": 2e9}, "2009-05-17T00:00:03Z changed"),
        ({"announced": 2e9, "changed": True}, "2026-09-21T14:13:20Z changed"),
        ({"announced": 86_400.0, "same_since": MAY_2009 + 4.0}, "2009-05-17T00:00:04Z seen"),
    ],
)
def test_a_page_has_the_date_of_its_most_trusted_source(data, known, date):
    write(data, [a_record(A, text="um", **known)])
    catch_up(data)
    assert [f"{shown.date} {shown.date_kind}" for shown in contents(data)] == [date]


def test_a_title_repeated_for_its_weight_makes_no_phrases_across_its_copies(data):
    write(data, [a_record(A, title="alfa beta eta", text="gama delta teta")])
    catch_up(data)
    snapshot = IndexReader(data).snapshot()

    def phrase(*words: str) -> int:
        terms = [readings(word)[0][0] for word in words]
        return snapshot.top_matches(tantivy.Query.phrase_query(schema.SCHEMA, schema.ALL, [*terms]), 10).total

    assert phrase("alfa", "beta", "eta") == 1
    assert phrase("gama", "delta", "teta") == 1
    assert phrase("beta", "eta", "alfa") == 0
    assert phrase("eta", "alfa", "beta") == 0
    assert phrase("beta", "eta", "gama") == 0


def test_when_to_commit(data, monkeypatch):
    monkeypatch.setattr(projection, "COMMIT_RECORDS", 10)
    with IndexFollower(data) as steps:
        assert not steps.projection.pace.is_due(1e9)
        write(data, small_web(25))
        steps.read(100.0)
        assert len(contents(data)) == 20, "full batches are committed at once"
        assert not steps.projection.pace.is_due(100.1)
        assert steps.projection.pace.is_due(100.5), "idle"
        assert not steps.projection.pace.is_due(100.5, more_coming=True), "the next records wait for the graph"
        write(data, [a_record(A)], "w2")
        steps.read(109.0)
        assert not steps.projection.pace.is_due(109.1)
        write(data, [a_record(B)], "w3")
        steps.read(110.0)
        assert steps.projection.pace.is_due(110.0), "ten seconds after the first"
        assert behind(data) > 0
        steps.commit()
        assert behind(data) == 0
        assert not steps.projection.pace.is_due(1e9)
    assert len(contents(data)) == 27


def test_a_reader_sees_each_commit_and_an_index_that_was_made_again(data):
    write(data, [a_record(A)])
    reader = IndexReader(data)
    with pytest.raises(DataError, match="nothing indexed yet"):
        reader.snapshot()
    catch_up(data)
    first = reader.snapshot()
    assert first.documents == 1
    assert reader.snapshot() is first
    write(data, [a_record(B)], "w2")
    catch_up(data)
    assert (reader.snapshot().documents, first.documents) == (2, 1)
    assert rebuild(data) == 2
    assert reader.snapshot().documents == 2


def test_the_loop_makes_pages_findable_while_the_archive_grows(data):
    stop, committed = threading.Event(), threading.Event()
    original = IndexFollower.commit

    def commit(self: IndexFollower) -> None:
        original(self)
        if behind(data) == 0:
            committed.set()

    IndexFollower.commit = commit  # type: ignore[method-assign]
    thread = threading.Thread(target=follow, args=(data, stop))
    try:
        thread.start()
        for number in range(3):
            committed.clear()
            write(data, [a_record(f"{A}{number}", text="achado")], f"w{number}")
            assert committed.wait(20)
            assert len(urls(data, "achado")) == number + 1
        write(data, [a_record(B, text="achado")], "last")
    finally:
        stop.set()
        thread.join(20)
        IndexFollower.commit = original  # type: ignore[method-assign]
    assert not thread.is_alive()


def test_only_one_process_writes(data):
    with IndexFollower(data), pytest.raises(DataError, match="another process is writing the index"):
        catch_up(data)


def test_a_damaged_index_is_said_in_our_words_and_can_be_made_again(data):
    write(data, small_web(20))
    catch_up(data)
    (schema.folder(data) / "meta.json").write_bytes(b"\x00 nonsense")
    with pytest.raises(DataError, match="rebuild index"):
        catch_up(data)
    with pytest.raises(DataError, match="rebuild index"):
        IndexReader(data).snapshot()
    assert rebuild(data) == 20
    assert len(contents(data)) == 20
    index_state.path_of(data).write_bytes(b"not a database, " * 512)
    with pytest.raises(DataError, match="rebuild index"):
        catch_up(data)
    assert rebuild(data) == 20


def test_an_index_that_was_deleted_is_made_again_and_not_left_empty(data):
    import shutil

    write(data, small_web(20))
    catch_up(data)
    shutil.rmtree(schema.folder(data))
    catch_up(data)
    assert len(contents(data)) == 20


def _full_disk(data: DataDirectory, pipe: Connection, bytes_max: int) -> None:
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max))
    try:
        catch_up(data)
    except DiskFull as error:
        pipe.send(str(error))
    else:
        pipe.send("")


@pytest.mark.parametrize("bytes_max", [20_000, 40_000])
def test_a_full_disk_is_said_in_our_words_and_damages_nothing(data, bytes_max):
    write(data, small_web(150))
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_full_disk, args=(data, there, bytes_max))
    child.start()
    assert here.poll(30)
    assert "the disk is full" in here.recv()
    child.join(30)
    catch_up(data)
    assert len(contents(data)) == 150


def test_no_space_left_is_noticed_before_writing(data, monkeypatch):
    write(data, [a_record(A)])
    monkeypatch.setattr("tarrafa.runtime.data_dir.FREE_BYTES_MIN", 1 << 62)
    with pytest.raises(DiskFull, match="the disk is full"):
        catch_up(data)


def test_halves_of_an_id_make_the_id_again():
    rng = random.Random(5)
    for _ in range(100):
        key = rng.randbytes(16)
        high, low = split_url_id(key)
        assert join_url_ids([high], [low]) == [key]


@pytest.mark.parametrize(
    ("host", "names"),
    [
        ("www.ufmg.br", ["www.ufmg.br", "ufmg.br", "br"]),
        ("localhost", ["localhost"]),
        ("127.0.0.1", ["127.0.0.1"]),
        ("[::1]", ["[::1]"]),
    ],
)
def test_domains_of_a_host(host, names):
    assert domains_of_host(host) == names


def test_a_commit_that_a_crash_cut_off_before_its_last_write_is_done_again(data):
    """tantivy alone would refuse for ever: the list of deletions that it left has the name of the next one."""
    write(data, [a_record(A, text="velho"), a_record(B, text="outro")])
    catch_up(data)
    kept = [schema.folder(data) / "meta.json", index_state.path_of(data)]
    before = [path.read_bytes() for path in kept]
    write(data, [a_record(A, 2, text="novo")], "w2")
    catch_up(data)
    assert list(schema.folder(data).glob("*.del")), "the crash must leave one"
    for path, content in zip(kept, before, strict=True):
        path.write_bytes(content)
    catch_up(data)
    assert (urls(data, "velho"), urls(data, "novo"), urls(data, "outro")) == ([], [A], [B])


def die_while_following(data: DataDirectory, after_s: float) -> None:
    projection.COMMIT_RECORDS = 10
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if after_s:
        signal.setitimer(signal.ITIMER_REAL, after_s)
    catch_up(data)
    os._exit(0)


def two_archives(folder: Path) -> tuple[DataDirectory, DataDirectory]:
    """The same pages twice, some visited again, some gone: 120 are left."""
    records = small_web(150)
    again = [msgspec.structs.replace(record, visit=2) for record in small_web(150, seed=8)[::3]]
    again += [a_record(record.url, 3, status=404) for record in records[::5]]
    data, fresh = new_data(folder / "killed"), new_data(folder / "fresh")
    for target in (data, fresh):
        write(target, records[:70])
        write(target, records[70:] + again, "w2")
    return data, fresh


def follow_killed_at_random_moments(data: DataDirectory, seed: int, longest_s: float) -> None:
    rng, killed = random.Random(seed), 0
    for attempt in range(100):
        after_s = 0.0 if attempt == 99 else rng.uniform(0.005, longest_s)
        child = multiprocessing.get_context("fork").Process(target=die_while_following, args=(data, after_s))
        child.start()
        child.join(60)
        killed += child.exitcode == -signal.SIGALRM
        if child.exitcode == 0:
            break
    assert child.exitcode == 0
    assert killed >= 3, "the test must really kill"


def test_killed_at_random_moments_it_ends_as_one_made_in_one_go(tmp_path):
    data, fresh = two_archives(tmp_path)
    catch_up(fresh)
    follow_killed_at_random_moments(data, 11, 0.06)
    assert behind(data) == 0
    assert contents(data) == contents(fresh)
    assert len(contents(data)) == 120


LONG_TEXT = " ".join(f"palavra{number}" for number in range(100))


@pytest.mark.parametrize(
    ("text", "content", "simhash", "known"),
    [
        (LONG_TEXT, "f" * 32, (1 << 64) - 1, (-1, -1)),
        (LONG_TEXT, "7fffffffffffffff" + "0" * 16, 1 << 63, ((1 << 63) - 1, -(1 << 63))),
        (LONG_TEXT.partition(" ")[2], "0" * 31 + "1", 5, (0, None)),
        (LONG_TEXT, "", 0, (None, None)),
    ],
)
def test_fingerprints_are_kept_as_they_are_and_a_short_text_has_an_exact_one_only(data, text, content, simhash, known):
    record = a_record(A, text=text)
    assert record.page is not None
    page = msgspec.structs.replace(record.page, content_id=content, simhash=simhash)
    write(data, [msgspec.structs.replace(record, page=page)])
    catch_up(data)
    matches = IndexReader(data).snapshot().top_matches(tantivy.Query.all_query(), 10)
    facts = (schema.CONTENT, schema.SIMHASH, schema.URL_LENGTH)
    assert list(map(matches.field_values, facts)) == [[known[0]], [known[1]], [len(A)]]


def test_titles_that_say_the_same_have_the_same_headline(data):
    titles = {A: "Notícias do Mar", B: "notícia do mar!", C: "Notícias do Rio"}
    write(data, [a_record(url, title=title) for url, title in titles.items()])
    catch_up(data)
    snapshot = IndexReader(data).snapshot()
    matches = snapshot.top_matches(tantivy.Query.all_query(), 10)
    shown = (snapshot.stored_document(place).url for place in matches.addresses())
    headline = dict(zip(shown, matches.field_values(schema.HEADLINE), strict=True))
    assert headline[A] == headline[B] != headline[C]


def test_the_best_begin_alike_however_many_are_asked_for_though_all_are_equal(data):
    for part in range(4):
        write(data, [a_record(f"{A}{part}/{number}") for number in range(30)], f"w{part}")
        catch_up(data)
    snapshot, everything = IndexReader(data).snapshot(), tantivy.Query.all_query()
    whole = snapshot.top_matches(everything, 120).ids()
    for size in (1, 7, 50):
        assert snapshot.top_matches(everything, size).ids() == whole[:size]
