"""The triple store follows the archive: what pages state can be asked for, whatever crashes in between."""

import multiprocessing
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tarrafa.archive import projection
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.errors import DataError
from tarrafa.index import shards
from tarrafa.model import RobotsMeta, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tarrafa.triples import snapshots, storage
from tarrafa.triples.entity_query import EntityQuery
from tarrafa.triples.entity_reader import EntityReader
from tarrafa.triples.follower import (
    PUBLISH_IDLE_S,
    TriplesFollower,
    apply_takedowns,
    catch_up,
    follow,
    rebuild,
)
from tarrafa.triples.status import behind
from tests.graph.archived_web import FIRST_AT, new_data, write
from tests.triples.sample_statements import (
    FOAF,
    SCHEMA,
    a_page,
    a_person,
    books,
    contents,
    counted,
    lives,
    statements,
    states,
    urls,
)
from tests.wait import block_until

A, B, C = (f"http://{name}.test/" for name in "abc")


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def names(data: DataDirectory, url: str = A) -> list[str]:
    """Who is named on a page, according to the store."""
    found = statements(data, url)
    return sorted(line.split('"')[1] for line in found if f"<{SCHEMA}name>" in line)


def test_a_page_is_a_graph_under_its_url_and_the_default_graph_says_when_it_was_fetched(data):
    write(data, [a_page(A, 1, a_person("Ana", "http://a.test/#ana"), last_modified="Wed, 21 Oct 2015 07:28:00 GMT")])
    assert catch_up(data) == 1
    assert statements(data, A) == {
        f"<http://a.test/#ana> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{SCHEMA}Person>",
        f'<http://a.test/#ana> <{SCHEMA}name> "Ana"',
    }
    date = "^^<http://www.w3.org/2001/XMLSchema#dateTime>"
    assert {line for line in contents(data) if line.startswith(f"<{A}>")} == {
        f'<{A}> <urn:tarrafa:fetched> "2026-09-21T14:13:20Z"{date}',
        f'<{A}> <urn:tarrafa:changed> "2015-10-21T07:28:00Z"{date}',
        f'<{A}> <urn:tarrafa:collection> "small"',
    }


def test_schema_org_has_one_spelling_and_graphs_of_the_page_itself_are_not_kept_apart(data):
    text = states(("_:x", ["http://schema.org/Person"], [("http://www.schema.org/name", "Ana")]))
    text += "<http://a.test/s> <http://a.test/p> <http://schema.org/about> <http://a.test/g> .\n"
    write(data, [a_page(A, text=text)])
    catch_up(data)
    found = statements(data, A)
    assert any(line.endswith(f"<{SCHEMA}Person>") for line in found)
    assert names(data) == ["Ana"]
    assert "<http://a.test/s> <http://a.test/p> <http://schema.org/about>" in found, "a value stays as it is"


def test_blank_nodes_belong_to_their_page_and_are_called_the_same_each_time(data):
    write(data, [a_page(A, 1, a_person("Ana")), a_page(B, 1, a_person("Ana"))])
    catch_up(data)
    subjects = {url: {line.split(" ")[0] for line in statements(data, url)} for url in (A, B)}
    assert len(subjects[A]) == len(subjects[B]) == 1
    assert subjects[A].isdisjoint(subjects[B])
    before = contents(data)
    rebuild(data)
    assert contents(data) == before


def test_a_newer_visit_replaces_what_the_page_stated_and_an_older_one_changes_nothing(data):
    write(data, [a_page(A, 5, a_person("velha"))])
    catch_up(data)
    write(data, [a_page(A, 7, a_person("nova")), a_page(A, 6, a_person("tarde"))], "w2")
    catch_up(data)
    assert names(data) == ["nova"]
    assert counted(data) == {key: books(data)[key] for key in ("counts", "together")}


GONE: list[dict[str, Any]] = [
    {"status": 404},
    {"status": 410},
    {"status": 301, "location": B},
    {"status": 403},
    {"status": -7},
]
GONE += [{"robots": RobotsMeta(noindex=True)}, {"kept": False}]


WEATHER = [304, 500, 503, 429, -10, -11]


def test_what_a_page_stated_goes_with_it_and_stays_away_and_the_weather_takes_nothing(data):
    gone, there = [f"{A}{n}" for n in range(len(GONE))], [f"{B}{n}" for n in range(len(WEATHER))]
    write(data, [a_page(url, 1, a_person("velha")) for url in (*gone, *there)])
    catch_up(data)
    away = [a_page(url, 3, a_person("velha"), **visit) for url, visit in zip(gone, GONE, strict=True)]
    write(data, [*away, *(a_page(url, 3, status=status) for url, status in zip(there, WEATHER, strict=True))], "w2")
    catch_up(data)
    assert urls(contents(data)) == {*there}
    write(data, [a_page(url, 2, a_person("tarde")) for url in gone], "w3")
    catch_up(data)
    assert urls(contents(data)) == {*there}, "a late file must not bring it back"
    write(data, [a_page(url, 4, a_person("volta")) for url in gone], "w4")
    catch_up(data)
    assert {*map(tuple, (names(data, url) for url in gone))} == {("volta",)}


def test_a_page_that_states_nothing_any_more_has_no_graph(data):
    write(data, [a_page(A, 1, a_person("Ana")), a_page(B, 1, a_person("Bia"))])
    catch_up(data)
    write(data, [a_page(A, 2)], "w2")
    catch_up(data)
    assert urls(contents(data)) == {B}
    assert not statements(data, A)


def test_of_two_collections_the_page_fetched_last_stands_and_when_it_goes_the_others_is_read_again(data):
    later: dict[str, Any] = {"collection": "outra", "at": FIRST_AT + 60}
    write(data, [a_page(A, 1, a_person("primeira")), a_page(A, 1, a_person("segunda"), **later)])
    catch_up(data)
    assert names(data) == ["segunda"]
    said = {line for line in contents(data) if "urn:tarrafa:collection" in line}
    assert {line.split('"')[1] for line in said} == {"small", "outra"}
    write(data, [a_page(A, 2, status=404, collection="outra", at=FIRST_AT + 90)], "w2")
    catch_up(data)
    assert names(data) == ["primeira"]
    assert 'fetched> "2026-09-21T14:13:20Z"' in "".join(contents(data))
    write(data, [a_page(A, 2, status=404)], "w3")
    catch_up(data)
    assert contents(data) == set()


def test_a_collection_that_comes_late_with_an_older_page_changes_nothing_but_that_it_has_it(data):
    write(data, [a_page(A, 1, a_person("nova"), at=FIRST_AT + 60)])
    catch_up(data)
    write(data, [a_page(A, 1, a_person("velha"), collection="outra")], "w2")
    catch_up(data)
    assert names(data) == ["nova"]
    assert sum("urn:tarrafa:collection" in line for line in contents(data)) == 2


def test_a_url_that_is_no_iri_has_a_graph_of_its_own(data):
    odd = [A + path for path in ("x|y", "x[1]", "?q={a}", "%zz", "?a=^`")]
    plain = [f"{A}x%7Cy", f"{A}x%5B1%5D"]
    write(data, [a_page(url, 1, a_person("Ana")) for url in (*odd, *plain)])
    catch_up(data)
    assert len(urls(contents(data))) == len(odd) + len(plain)
    write(data, [a_page(url, 2, status=404) for url in odd], "w2")
    catch_up(data)
    assert urls(contents(data)) == {*plain}


BROKEN = ['<http://a b> <http://p> "x" .', '<http://s> <http://p> "x"@-- .', "no statement", '<s> <http://p> "x" .']


def test_lines_that_are_no_statements_lose_themselves_only(data):
    pages = {f"{A}{n}": f"{line}\n{states(a_person('Ana'))}" for n, line in enumerate(BROKEN)}
    write(data, [a_page(url, text=text) for url, text in pages.items()])
    catch_up(data)
    assert [names(data, url) for url in pages] == [["Ana"]] * len(BROKEN)


def test_what_was_taken_down_leaves_at_once_and_comes_back_as_its_visits_have_it(data):
    write(data, [a_page(url, 1, a_person("Ana")) for url in (A, B, "http://x.b.test/")])
    catch_up(data)
    before, noted = contents(data), books(data)
    for target, left in (("site:b.test", {A}), (A, set())):
        record_action(data, "add", parse_target(target), "eu", "", FIRST_AT)
        assert apply_takedowns(data)
        assert urls(contents(data)) == left
    write(data, [a_page(A, 2, a_person("nova"))], "w2")
    catch_up(data)
    assert contents(data) == set()
    assert books(data)["things"] == []
    for target in ("site:b.test", A):
        record_action(data, "lift", parse_target(target), "eu", "", FIRST_AT + 1)
    assert apply_takedowns(data)
    assert names(data) == ["nova"]
    assert contents(data) - before != before
    assert urls(contents(data)) == urls(before)
    assert [row[0] for row in books(data)["visits"]] == [row[0] for row in noted["visits"]]


def test_what_a_killed_follower_had_written_leaves_too_if_it_was_taken_down_meanwhile(data):
    write(data, [a_page(A, 1, a_person("Ana")), a_page(B, 1, a_person("Bia"))])
    with TriplesFollower(data) as killed:
        killed.read(1.0)
        killed._write()  # the store has it, and nothing is saved
    record_action(data, "add", parse_target(A), "eu", "", FIRST_AT)
    catch_up(data)
    assert urls(contents(data)) == {B}


def test_when_to_commit_and_when_to_publish(data, monkeypatch):
    monkeypatch.setattr(projection, "COMMIT_RECORDS", 10)
    with TriplesFollower(data) as steps:
        assert not steps.projection.pace.is_due(1e9)
        write(data, [a_page(f"{A}{n}", 1, a_person("Ana")) for n in range(25)])
        steps.read(100.0)
        assert behind(data) > 0
        steps.publish(100.0)
        assert snapshots.newest_number(data) == 0, "what is half read is not shown"
        assert not steps.projection.pace.is_due(100.1)
        assert steps.projection.pace.is_due(100.5), "idle"
        steps.commit()
        assert behind(data) == 1, "nobody can see it yet"
        steps.publish(100.5)
        assert (snapshots.newest_number(data), behind(data)) == (1, 0)
        write(data, [a_page(B, 1, a_person("Bia"))], "w2")
        steps.read(101.0)
        steps.commit()
        steps.publish(101.5)
        assert snapshots.newest_number(data) == 1, "not so often"
        steps.publish(102.6)
        assert (snapshots.newest_number(data), behind(data)) == (2, 0)
        steps.publish(110.0)
        assert snapshots.newest_number(data) == 2, "nothing is new"
        write(data, [a_page(B, 2, a_person("Ivo"))], "w3")
        steps.read(110.0)
        steps.commit()
        steps.publish(103.0, PUBLISH_IDLE_S)
        assert snapshots.newest_number(data) == 2, "nor so often when no records come"
        steps.publish(103.2, PUBLISH_IDLE_S)
        assert (snapshots.newest_number(data), behind(data)) == (3, 0)
    assert len(urls(contents(data))) == 26


def test_what_was_committed_and_not_published_is_published_by_the_next(data):
    write(data, [a_page(A, 1, a_person("Ana"))])
    with TriplesFollower(data) as killed:
        killed.read(1.0)
        killed.commit()
    assert behind(data) == 1
    catch_up(data)
    assert behind(data) == 0
    assert names(data) == ["Ana"]


def test_the_loop_shows_what_was_archived_while_it_runs(data):
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(data, stop))
    thread.start()
    try:
        write(data, [a_page(A, 1, a_person("Ana"))])
        block_until(lambda: behind(data) == 0)
    finally:
        stop.set()
        thread.join(30)
    assert urls(contents(data)) == {A}


def test_one_process_at_a_time(data):
    with TriplesFollower(data), pytest.raises(DataError, match="another process is writing the triple store"):
        catch_up(data)


@pytest.mark.parametrize("lost", ["store", "followed.sqlite"])
def test_half_a_store_is_made_again(data, lost):
    write(data, [a_page(A, 1, a_person("Ana"))])
    catch_up(data)
    before = contents(data)
    if lost == "store":
        storage.store_path(data).rename(data.root / "away")
    else:
        storage.database_path(data).unlink()
    write(data, [a_page(B, 1, a_person("Bia"))], "w2")
    catch_up(data)
    assert contents(data) > before
    assert urls(contents(data)) == {A, B}


@pytest.mark.parametrize("file", ["followed.sqlite", "store/CURRENT"])
def test_a_damaged_store_is_said_in_one_line_and_made_again_by_rebuild(data, file):
    write(data, [a_page(A, 1, a_person("Ana"))])
    catch_up(data)
    (data.triples / file).write_bytes(b"no such thing\n" * 1000)
    for path in data.triples.glob("*-wal"):
        path.unlink()
    with pytest.raises(DataError, match="`tarrafa rebuild triples` makes it") as caught:
        catch_up(data)
    assert "\n" not in str(caught.value)
    assert rebuild(data) == 1
    assert names(data) == ["Ana"]


def test_a_store_that_another_version_laid_out_is_refused_until_it_is_made_again(data, monkeypatch):
    write(data, [a_page(A, 1, a_person("Ana"))])
    catch_up(data)
    books = storage.database_path(data).read_bytes()
    monkeypatch.setattr(storage, "FORMAT", storage.FORMAT + 1)
    assert behind(data) > 0
    with pytest.raises(DataError, match=r"nothing was changed. `tarrafa rebuild triples` makes it again"):
        catch_up(data)
    assert storage.database_path(data).read_bytes() == books
    rebuild(data)
    assert (names(data), behind(data)) == (["Ana"], 0)


def test_parts_by_host_hold_together_what_one_store_would(data, tmp_path):
    whole, records = new_data(tmp_path / "whole"), lives(20, 120, 3)
    for target in (data, whole):
        write(target, records)
    shards.set_layout(data, shards.parse_layout("3", "test"))
    assert catch_up(data) == catch_up(whole) == 120
    assert contents(data) == contents(whole)
    assert behind(data) == 0
    assert [part.triples.name for part in shards.parts(data)] == ["1-of-3", "2-of-3", "3-of-3"]
    shards.set_layout(data, shards.SINGLE_SHARD)
    storage.remove_stray_parts(data)
    assert not list((data.root / "triples").glob("*-of-*"))
    catch_up(data)
    assert contents(data) == contents(whole)


# -- random lives, and sudden deaths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(2))
def test_after_any_life_counts_are_what_counting_anew_gives(data, seed, monkeypatch):
    rng, records = random.Random(seed), lives(12, 180, seed)
    monkeypatch.setattr(projection, "COMMIT_RECORDS", [20, 2_000][seed % 2])
    while records:
        some, records = records[: rng.randrange(1, 90)], records[90:]
        write(data, rng.sample(some, len(some)), f"w{len(records)}")
        catch_up(data)
        assert counted(data) == {key: books(data)[key] for key in ("counts", "together")}
    kept, noted = contents(data), books(data)
    rebuild(data)
    assert contents(data) == kept
    assert books(data) == noted
    totals = dict(noted["totals"])
    assert totals["statements"] == len([line for line in kept if "<urn:tarrafa:" not in line])
    assert (totals["pages"], totals["things"]) == (len(urls(kept)), len(noted["things"]))


def test_when_all_pages_are_gone_nothing_is_left(data):
    records = lives(12, 200, 9)
    write(data, records)
    catch_up(data)
    pages = {(record.url, record.collection) for record in records}
    write(data, [a_page(url, 999, status=410, collection=name) for url, name in sorted(pages)], "w2")
    catch_up(data)
    assert contents(data) == set()
    noted = books(data)
    assert not any(noted[table] for table in ("pages", "things", "facts", "has", "counts", "together"))
    assert {value for _, value in noted["totals"]} == {0}


def follow_for_ever(data: DataDirectory) -> None:
    projection.COMMIT_RECORDS = 9
    for part in shards.parts(data):
        with TriplesFollower(part) as steps:
            while True:
                steps.read(1.0)
                steps.commit()
                steps.publish(1.0, at_once=True)


def killed_at_random_moments(data: DataDirectory, records: list[VisitRecord], seed: int, kills: int) -> None:
    """The archive grows and changes all the while."""
    rng, fork = random.Random(seed), multiprocessing.get_context("fork")
    portion = -(-len(records) // kills)
    writers = [WarcWriter(data.archive, f"w{number}", FIRST_AT) for number in range(3)]
    for number in range(kills):
        some = records[number * portion : (number + 1) * portion]
        child = fork.Process(target=follow_for_ever, args=(data,))
        child.start()
        for record in some:
            writer = rng.choice(writers)
            writer.append(record, None)
            if rng.random() < 0.3:
                writer.prepare_commit()()
                child.join(rng.uniform(0, 0.02))
        child.kill()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    for writer in writers:
        writer.close()


def check_killed(folder: Path, seed: int, pages: int, visits: int, kills: int) -> None:
    data, fresh, records = new_data(folder / "killed"), new_data(folder / "fresh"), lives(pages, visits, seed)
    killed_at_random_moments(data, records, seed, kills)
    for path in data.archive.iterdir():
        (fresh.archive / path.name).write_bytes(path.read_bytes())
    for target in (data, fresh):
        catch_up(target)
        assert behind(target) == 0
    assert contents(data) == contents(fresh)
    assert books(data) == books(fresh)
    assert counted(data) == {key: books(data)[key] for key in ("counts", "together")}
    assert len(urls(contents(data))) > pages // 2


def test_killed_at_random_moments_it_ends_as_one_that_never_was(tmp_path):
    check_killed(tmp_path, 5, 25, 400, 20)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 16))
def test_killed_very_often_it_ends_as_one_that_never_was(tmp_path, seed):
    check_killed(tmp_path, seed, 120, 3_000, 150)


def test_foaf_is_as_good_as_schema_org(data):
    write(data, [a_page(A, 1, a_person("Ana", vocabulary=FOAF))])
    catch_up(data)
    assert any(row[1] == f"{FOAF}Person" for row in books(data)["counts"])


def test_no_page_speaks_in_our_name(tmp_path):
    data = new_data(tmp_path / "data")
    forged = ("http://a.test/", [f"{SCHEMA}Person"], [("urn:tarrafa:collection", "x"), ("urn:tarrafa:fetched", "2999")])
    write(data, [a_page("http://evil.test/", 1, forged)])
    catch_up(data)
    assert not [line for line in contents(data) if "urn:tarrafa:" in line and "<http://evil.test/> <urn:" not in line]


def test_pages_of_hosts_without_a_name_are_followed_too(tmp_path):
    data = new_data(tmp_path / "data")
    url = "http://[2606:4700::1111]:8080/x?[a]"
    nothing = a_page("http://[2606:4700::1111]/", 1)
    write(data, [a_page(url, 1, a_person("Ana")), nothing, a_page("http://a.test/", 1, a_person("Bia"))])
    catch_up(data)
    assert {"Ana", "Bia"} == {thing.label for thing in EntityReader(data).entities(EntityQuery()).things}
    write(data, [a_page(url, 2)])
    catch_up(data)
    assert not [line for line in contents(data) if "4700" in line]


def test_half_a_character_in_an_archive_stops_nobody(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_page("http://a.test/", 1, text='<http://a.test/> <http://a.test/p> "\ud800" .\n')])
    assert catch_up(data) == 1
