"""What follows from what pages state: by ontologies, page by page; by rules, from all of them."""

import multiprocessing
import random
import signal
import threading
from pathlib import Path

import pytest

from tarrafa.archive import projection
from tarrafa.archive.warc_reader import Cursor, visit_lengths
from tarrafa.errors import ConfigError
from tarrafa.parse.rdf.nquads import RDF_TYPE, Statement
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, record_action
from tarrafa.triples import construct_rules, follower, ontology, storage
from tarrafa.triples.entity_query import EntityCondition, EntityQuery
from tarrafa.triples.entity_reader import EntityReader
from tarrafa.triples.follower import TriplesFollower, apply_takedowns, catch_up, follow, rebuild
from tarrafa.triples.ontology import Ontology
from tarrafa.triples.status import behind, commits, triples_status
from tests.graph.archived_web import FIRST_AT, new_data, write
from tests.triples.sample_statements import FOAF, SCHEMA, a_page, a_person, books, contents, lives, statements
from tests.wait import block_until

A, B, C = (f"http://{name}.test/" for name in "abc")
TURTLE = f"""
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix s: <http://schema.org/> .
@prefix foaf: <{FOAF}> .
s:Person rdfs:subClassOf s:Thing . foaf:Person owl:equivalentClass s:Person .
s:Event rdfs:subClassOf s:Thing . s:Festival rdfs:subClassOf s:Event .
foaf:name rdfs:subPropertyOf rdfs:label . s:name rdfs:subPropertyOf rdfs:label .
s:Festival rdfs:subClassOf [ a owl:Restriction ] .
"""
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NEIGHBOURS = '''
[[rule]]
name = "same name"
construct = """
PREFIX s: <https://schema.org/>
CONSTRUCT { ?a <urn:x:same> ?b } WHERE { ?a s:name ?n . ?b s:name ?n FILTER(?a != ?b) }
"""
'''


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def lay_in(data: DataDirectory, toml: str = "enabled = true\n", turtle: str = TURTLE) -> None:
    folder = ontology.folder_of(data)
    folder.mkdir(exist_ok=True)
    (folder / "small.ttl").write_text(turtle)
    ontology.path_of(data).write_text(toml)


def inferred(data: DataDirectory, url: str) -> set[str]:
    return {line.split(" ", 1)[1] for line in statements(data, f"urn:tarrafa:inferred:{url}")}


def test_classes_and_properties_above_stand_beside_the_page_and_go_with_it(data):
    lay_in(data)
    write(data, [a_page(A, 1, a_person("Ana", vocabulary=FOAF)), a_page(B, 1, ("_:f", [f"{SCHEMA}Festival"], []))])
    catch_up(data)
    assert inferred(data, A) == {f"{RDF_TYPE} <{SCHEMA}Person>", f"{RDF_TYPE} <{SCHEMA}Thing>", f'<{LABEL}> "Ana"'}
    assert inferred(data, B) == {f"{RDF_TYPE} <{SCHEMA}Event>", f"{RDF_TYPE} <{SCHEMA}Thing>"}
    assert len(statements(data, A)) == 2, "the page states what it states"
    write(data, [a_page(A, 2, a_person("Bia")), a_page(B, 2, status=404)], "w2")
    catch_up(data)
    assert inferred(data, A) == {f"{RDF_TYPE} <{SCHEMA}Thing>", f"{RDF_TYPE} <{FOAF}Person>", f'<{LABEL}> "Bia"'}
    assert not inferred(data, B)


def test_things_are_found_by_what_follows_and_show_what_was_said(data):
    lay_in(data)
    festival = ("_:f", [f"{SCHEMA}Festival"], [(f"{SCHEMA}name", "Redes")])
    write(data, [a_page(A, 1, a_person("Ana"), festival, ("_:o", ["http://x.test/Other"], []))])
    catch_up(data)
    reader = EntityReader(data)
    assert reader.entities(EntityQuery(of_class=f"{SCHEMA}Thing")).total == 2
    [found] = reader.entities(EntityQuery(of_class=f"{SCHEMA}Event")).things
    assert (found.classes, [shown.property for shown in found.properties]) == (
        [f"{SCHEMA}Festival"],
        [f"{SCHEMA}name"],
    )
    assert [one.label for one in reader.entities(EntityQuery(not_class=f"{SCHEMA}Event")).things] == ["Ana", ""]
    assert reader.entities(EntityQuery(conditions=(EntityCondition(LABEL, "redes"),))).total == 1


@pytest.mark.parametrize(
    "change", [*(pytest.param(one, marks=pytest.mark.long) for one in ("disabled", "gone")), "other"]
)
def test_when_the_ontology_changes_all_pages_are_as_if_it_had_always_been_so(data, change, tmp_path):
    lay_in(data)
    write(data, lives(12, 60, 3))
    catch_up(data)
    if change == "disabled":
        lay_in(data, "enabled = false\n")
    elif change == "gone":
        ontology.path_of(data).unlink()
    else:
        lay_in(data, 'files = ["small.ttl"]\n', TURTLE.replace("s:Event rdfs:subClassOf s:Thing .", ""))
    catch_up(data)
    after, noted = contents(data), books(data)
    assert any("urn:tarrafa:inferred" in line for line in after) == (change == "other")
    rebuild(data)
    assert contents(data) == after
    assert books(data) == noted


def test_what_goes_in_circles_comes_to_an_end():
    closed = ontology._transitive_closure({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d")})
    assert closed == {"a": ("b", "c", "d"), "b": ("c", "a", "d"), "c": ("a", "d", "b")}


def test_what_one_page_may_lead_to_is_bounded(monkeypatch):
    monkeypatch.setattr(ontology, "INFERRED_MAX", 10)
    many = Ontology(properties={"urn:p": tuple(f"urn:q{n}" for n in range(7))})
    assert len(many.infer([Statement(f"<urn:{n}>", "<urn:p>", '"x"') for n in range(100)])) == 10


WRONG = [
    ("enabled = maybe", "not valid TOML"),
    ("enable = true", r"unknown key 'enable' \(allowed: enabled, files, \[\[rule\]\]\)"),
    ('files = ["../x.ttl"]', "must be the name of a"),
    ('files = ["none.ttl"]', "none.ttl: cannot be read"),
    ('[[rule]]\nname = "a"\nconstruct = "SELECT * {}"', "must be a CONSTRUCT query"),
    ('[[rule]]\nname = "a"\nconstruct = "CONSTRUCT {} WHERE { SERVICE <http://x> {} }"', "SERVICE is not allowed"),
    ('[[rule]]\nname = "a"\nconstruct = "CONSTRUCT {} WHERE { \\\\u0053ERVICE <http://x> {} }"', "not as .u escapes"),
    ('[[rule]]\nname = "a"', "construct"),
    (
        '[[rule]]\nname = "a"\nconstruct = "CONSTRUCT {} {}"\n[[rule]]\nname = "a"\nconstruct = "CONSTRUCT {} {}"',
        "same",
    ),
]


@pytest.mark.parametrize(("toml", "why"), WRONG)
def test_what_cannot_be_meant_is_one_line_with_the_file(data, toml, why):
    lay_in(data, toml)
    with pytest.raises(ConfigError, match=why) as caught:
        ontology.read_ontology(data)
    assert "\n" not in str(caught.value)
    assert str(data.root) in str(caught.value)


@pytest.mark.parametrize(
    "text", ["# service\nCONSTRUCT {} {}", "CONSTRUCT { <urn:service> <urn:p> 'SERVICE' } { ?service a x:service }"]
)
def test_the_word_alone_is_no_service(text):
    assert not ontology.rule_objection(text)


def test_while_the_file_is_broken_what_held_before_holds_whoever_starts_anew(data, caplog):
    lay_in(data)
    write(data, [a_page(A, 1, a_person("Ana"))])
    catch_up(data)
    lay_in(data, "enabled = maybe", "no turtle")
    write(data, [a_page(B, 1, a_person("Bia"))], "w2")
    catch_up(data)
    assert inferred(data, B) >= {f"{RDF_TYPE} <{SCHEMA}Thing>"}
    assert "the former ontology applies until the file is corrected" in caplog.text
    storage.open_store(data)  # whoever keeps the log does not keep the store open with it


# -- rules -------------------------------------------------------------------------------------------------------------


def constructed(data: DataDirectory) -> set[str]:
    return statements(data, "urn:tarrafa:rules")


def test_rules_see_all_pages_and_nothing_stands_that_does_not_follow_any_more(data):
    lay_in(data, NEIGHBOURS)
    write(data, [a_page(url, 1, a_person("Ana", f"{url}#ana")) for url in (A, B)])
    catch_up(data)
    assert constructed(data) == {f"<{A}#ana> <urn:x:same> <{B}#ana>", f"<{B}#ana> <urn:x:same> <{A}#ana>"}
    record_action(data, "add", parse_target(B), "eu", "", FIRST_AT)
    apply_takedowns(data)
    assert constructed(data) == set(), "nothing of what was taken down"
    record_action(data, "lift", parse_target(B), "eu", "", FIRST_AT + 1)
    catch_up(data)
    assert len(constructed(data)) == 2
    write(data, [a_page(B, 2, a_person("Bia", f"{B}#ana"))], "w2")
    ontology.path_of(data).unlink()
    catch_up(data)
    assert constructed(data) == set()


RULE = '[[rule]]\nname = "{}"\nconstruct = "{}"\n'
FAILING = [
    RULE.format("wrong", "CONSTRUCT { ?a <urn:x:p> } WHERE"),
    RULE.format("blank", "CONSTRUCT { ?a <urn:x:p> [] } WHERE { ?a ?b ?c }"),
    RULE.format("endless", "CONSTRUCT { ?a <urn:x:p> ?f } WHERE { ?a ?b ?c . ?d ?e ?f }"),
]


def test_a_rule_that_fails_is_said_once_and_the_others_go_on(data, caplog):
    fine = RULE.format("fine", "CONSTRUCT { ?a <urn:x:q> ?n } WHERE { ?a <https://schema.org/name> ?n }")
    later = RULE.format("later", "CONSTRUCT { ?a <urn:x:r> ?n } WHERE { ?a <urn:x:q> ?n }")
    lay_in(data, "".join([*FAILING[:2], fine, later]))
    write(data, [a_page(A, 1, a_person("Ana", f"{A}#ana"))])
    with TriplesFollower(data) as steps:
        for visit in (2, 3):
            write(data, [a_page(A, visit, a_person(f"Ana {visit}", f"{A}#ana"))], f"w{visit}")
            steps.load_ontology()
            steps.read(1.0)
            steps.commit()
            steps.run_rules(1.0, at_once=True)
            steps.commit()
            steps.publish(1.0, at_once=True)
    assert constructed(data) == {f'<{A}#ana> <urn:x:q> "Ana 3"', f'<{A}#ana> <urn:x:r> "Ana 3"'}
    said = [record.getMessage() for record in caplog.records]
    assert sum("'wrong'" in line for line in said) == 1
    assert sum("makes a blank node" in line for line in said) == 1


def test_rules_that_take_too_long_or_construct_too_much_hold_nobody_up(data, monkeypatch, caplog):
    lay_in(data, RULE.format("endless", "CONSTRUCT { ?a ?b ?i } WHERE { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"))
    write(data, [a_page(f"{A}{n}", 1, *(a_person(f"Ana {k}", f"_:p{k}") for k in range(30))) for n in range(20)])
    monkeypatch.setattr(construct_rules, "TIME_S_MAX", 0.5)
    catch_up(data)
    assert "they take longer than 0.5 s" in caplog.text
    assert behind(data) == 0
    assert constructed(data) == set()
    assert not construct_rules.folder(data).exists()


@pytest.mark.long
def test_the_loop_runs_the_rules_when_pages_have_come(data, monkeypatch):
    monkeypatch.setattr(construct_rules, "PAUSE_S_MIN", 0.0)
    monkeypatch.setattr(follower, "PUBLISH_EVERY_S", 0.0)
    lay_in(data, NEIGHBOURS)
    stop = threading.Event()
    thread = threading.Thread(target=follow, args=(data, stop))
    thread.start()
    try:
        write(data, [a_page(url, 1, a_person("Ana", f"{url}#ana")) for url in (A, B)])
        block_until(lambda: behind(data) == 0 and len(_published(data)) == 2)
    finally:
        stop.set()
        thread.join(30)
    assert len(constructed(data)) == 2


def _published(data: DataDirectory) -> set[str]:
    from tarrafa.triples.snapshots import TripleSnapshot

    snapshot = TripleSnapshot.open_newest(data)
    if snapshot is None:
        return set()
    with snapshot:
        return {str(quad) for quad in snapshot.store if "urn:tarrafa:rules" in str(quad)}


def test_status_counts_the_pages_that_a_changed_ontology_still_has_to_reach(data, monkeypatch):
    write(data, [a_page(url, 1, a_person("Ana")) for url in (A, B, C)])
    catch_up(data)
    archived = visit_lengths(data.archive)
    assert outdated_and_commits(data, archived) == (0, True)
    lay_in(data)
    assert outdated_and_commits(data, archived) == (3, False), "nobody has read it yet"
    monkeypatch.setattr(follower, "REWRITTEN_AT_ONCE", 1)
    with TriplesFollower(data) as steps:
        steps.load_ontology()
        steps.rewrite_outdated(1.0)
        steps.commit()
    assert outdated_and_commits(data, archived) == (2, False)
    catch_up(data)
    assert outdated_and_commits(data, archived) == (0, True)
    lay_in(data, "enabled = maybe\n")
    catch_up(data)
    assert outdated_and_commits(data, archived) == (0, True), "the former one stays in force"
    ontology.path_of(data).unlink()
    assert outdated_and_commits(data, archived) == (3, False)
    rebuild(data)
    assert outdated_and_commits(data, archived) == (0, True)


def outdated_and_commits(data: DataDirectory, archived: Cursor) -> tuple[int, bool]:
    """Pages that are outdated, and whether a crawl is complete as far as the triple store is concerned."""
    shown = triples_status(data)
    assert shown is not None
    return shown.outdated, commits(data, archived) is not None


# -- sudden deaths -----------------------------------------------------------------------------------------------------


def follow_for_ever(data: DataDirectory) -> None:
    projection.COMMIT_RECORDS, follower.REWRITTEN_AT_ONCE = 9, 3
    with TriplesFollower(data) as steps:
        while True:
            steps.load_ontology()
            steps.read(1.0)
            steps.rewrite_outdated(1.0)
            steps.commit()
            steps.publish(1.0, at_once=True)


def check_killed(folder: Path, seed: int, kills: int) -> None:
    rng, fork = random.Random(seed), multiprocessing.get_context("fork")
    data, fresh = new_data(folder / "killed"), new_data(folder / "fresh")
    records = lives(30, 20 * kills, seed)
    other = TURTLE.replace("s:Event rdfs:subClassOf s:Thing .", "s:Event rdfs:subClassOf s:Happening .")
    for number in range(kills):
        write(data, records[number * 20 : number * 20 + 20], f"w{number}")
        child = fork.Process(target=follow_for_ever, args=(data,))
        child.start()
        child.join(rng.uniform(0, 0.25))
        lay_in(data, "enabled = true\n" if rng.random() < 0.8 else "enabled = false\n", rng.choice([TURTLE, other]))
        child.join(rng.uniform(0, 0.15))
        child.kill()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
    lay_in(data)
    lay_in(fresh)
    for path in data.archive.iterdir():
        (fresh.archive / path.name).write_bytes(path.read_bytes())
    for target in (data, fresh):
        catch_up(target)
        assert behind(target) == 0
    assert contents(data) == contents(fresh)
    assert books(data) == books(fresh)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20, 24))
def test_killed_very_often_while_ontologies_come_and_go_it_ends_as_one_that_never_was(tmp_path, seed):
    check_killed(tmp_path, seed, 100)


def test_who_ends_lets_the_rules_see_the_last_pages(data):
    lay_in(data, NEIGHBOURS)
    for numbers in (range(2), range(2, 6)):
        stop = threading.Event()
        thread = threading.Thread(target=follow, args=(data, stop))
        thread.start()
        pages = [f"http://a.test/{number}" for number in numbers]
        write(data, [a_page(url, 1, a_person("Ana", f"{url}#ana")) for url in pages])
        block_until(lambda: not behind(data))
        stop.set()
        thread.join()
    assert len(constructed(data)) == 6 * 5
