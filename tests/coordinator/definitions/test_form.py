"""What people type becomes a collection, and a collection what they may type."""

import re
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings

from tarrafa.config import Collection, collection_from_table
from tarrafa.coordinator.definitions.fields import (
    CHOICE_LABELS,
    FIELD_LABELS,
    FILE_ONLY_FIELDS,
    SECTION_LABELS,
    collection_fields,
)
from tarrafa.coordinator.definitions.form import FORM_CHARS_MAX, default_form, form_from_collection, table_from_form
from tarrafa.coordinator.definitions.toml_writer import collection_to_toml, format_duration, format_size
from tarrafa.crawl.scope.collection_loader import ROOTS_MAX, complete_and_validate_table, complete_collection
from tarrafa.i18n import PORTUGUESE, translator
from tests.coordinator.definitions.collection_strategies import COLLECTIONS

SLOW = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(COLLECTIONS)
def test_a_collection_survives_the_way_through_a_form(collection: Collection) -> None:
    table, wrong = table_from_form(form_from_collection(collection))
    assert not wrong
    assert not complete_and_validate_table(table)[1]
    assert complete_collection(table, "form") == collection


@SLOW
@given(COLLECTIONS)
def test_a_collection_survives_the_way_through_a_file(collection: Collection) -> None:
    assert complete_collection(tomllib.loads(collection_to_toml(collection)), "file") == collection


def test_an_empty_form_means_the_defaults_and_a_form_of_defaults_says_the_same() -> None:
    named = {"name": ["a"], "roots": ["a.br"]}
    empty = complete_collection(table_from_form({name: [""] for name in collection_fields()} | named)[0], "form")
    spelled = complete_collection(table_from_form(default_form() | named)[0], "form")
    assert empty == spelled == complete_collection({"name": "a", "roots": ["a.br"]}, "table")


def test_a_file_names_only_what_is_not_as_usual_in_units_that_people_use() -> None:
    table = {"name": "a", "roots": ["a.br"], "politeness": {"delay": 90}, "scope": {"size_max": 2 << 20}}
    assert collection_to_toml(complete_collection(table, "test")) == (
        'name = "a"\nroots = [\n    "http://a.br/",\n]\n\n[scope]\nsize_max = "2 MiB"\n\n[politeness]\ndelay = "90 s"\n'
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.5, "500 ms"), (1.5, "1.5 s"), (90, "90 s"), (600, "10 min"), (86_400, "1 day"), (604_800, "7 days"),
     (5_400, "90 min"), (1e-7, "0.0000001 s")],
)  # fmt: skip
def test_durations_are_written_as_people_write_them(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(2_000_000, "2 MB"), (1 << 30, "1 GiB"), (1_500, "1500 B"), (200_000, "200 KB"), (0, "0 B")]
)
def test_sizes_are_written_as_people_write_them(number, text):
    assert format_size(number) == text


def test_hosts_that_are_those_of_the_roots_are_not_written_so_that_a_new_root_brings_its_host() -> None:
    form = form_from_collection(complete_collection({"name": "a", "roots": ["a.br", "b.br:8080"]}, "test"))
    assert form["scope.hosts"] == []
    form["roots"] = [*form["roots"], "c.br"]
    assert complete_collection(table_from_form(form)[0], "form").scope.hosts == ("a.br", "b.br:8080", "c.br")


def test_a_ticked_box_speaks_over_the_silent_one_before_it() -> None:
    named = {"name": ["a"], "roots": ["a.br"]}
    assert table_from_form(named | {"fetch.feeds": ["no"]})[0]["fetch"] == {"feeds": False}
    assert table_from_form(named | {"fetch.feeds": ["no", "yes"]})[0]["fetch"] == {"feeds": True}


def test_revisits_are_never_made_unless_somebody_says_how() -> None:
    table, _ = table_from_form({"name": ["a"], "roots": ["a.br"], "revisit.rate": ["5"]})
    assert complete_collection(table, "test").revisit.policy == "never"


def test_what_only_a_file_can_say_stays_as_it_was_when_the_rest_is_edited() -> None:
    written = collection_from_table(
        {"name": "a", "roots": ["http://a.br/"], "network": {"ca_file": "/etc/ca.pem"}}, "file"
    )
    before = complete_collection(
        {"name": "a", "roots": ["a.br"], "network": {"ca_file": "/etc/ca.pem"}}, "file", written
    )
    table, _ = table_from_form(form_from_collection(before) | {"scope.depth_max": ["2"]}, before)
    after = complete_collection(table, "form", before)
    assert (after.network.ca_file, after.scope.depth_max) == ("/etc/ca.pem", 2)
    assert not complete_and_validate_table(table, before)[1]
    assert [one.key for one in complete_and_validate_table(table)[1]] == ["ca_file"]


BAD = [
    ("name", "", "name is missing"),
    ("name", "A b", "name: 'A b' must begin with a-z or 0-9"),
    ("roots", "", "roots: at least one URL or host name is needed"),
    ("roots", "a.br\nnot a url", "roots[1]: not an http(s) URL or a host name: 'not a url'"),
    ("roots", "ftp://a.br/", "roots[0]: not an http(s) URL"),
    ("roots", '"a.br', "roots: '\"a.br': a text that begins with a quotation mark must end with one"),
    ("roots", "x" * 20_000, "roots: line 1 has more than the 16,384 characters allowed"),
    ("roots", "a\n" * (ROOTS_MAX + 1), "roots: 1,000,001 lines are more than the 1,000,000 allowed"),
    ("scope.hosts", "a b", "[scope] hosts: 'a b' is no pattern such as"),
    ("scope.include", "\n".join(f"*{n}*" for n in range(1_001)), "[scope] include: 1,001 patterns are more than"),
    ("scope.types", "html", "[scope] types: 'html' is no MIME type"),
    ("scope.types", "-", "[scope] types must name at least one"),
    ("scope.size_max", "big", "[scope] size_max: not a size: 'big'"),
    ("scope.size_max", "0", "[scope] size_max must be 1 bytes or more"),
    ("scope.depth_max", "-1", "[scope] depth_max must be 0 or more, got -1"),
    ("scope.depth_max", "x", '[scope] depth_max: expected a whole number such as 10, got "x"'),
    ("scope.depth_max", "1.5", "[scope] depth_max: expected a whole number"),
    ("scope.depth_max", "9" * 5_000, "[scope] depth_max: expected a whole number"),
    ("scope.pages_max", "0", "[scope] pages_max must be 1 or more"),
    ("scope.requests_max", "0", "[scope] requests_max must be 1 or more"),
    ("scope.host_pages_max", "0", "[scope] host_pages_max must be 1 or more"),
    ("scope.site_hosts_max", "0", "[scope] site_hosts_max must be 1 or more"),
    ("scope.copies_max", "0", "[scope] copies_max must be 1 or more"),
    ("scope.alike_max", "0", "[scope] alike_max must be 1 or more"),
    ("scope.beyond", "perhaps", "[scope] beyond: expected true or false"),
    (
        "scope.languages",
        "portuguese",
        "[scope] languages: 'portuguese' is not a known language; write the two letters of its code, such as pt",
    ),
    (
        "scope.languages",
        "pt\nPT-br",
        "'PT-br' is not a known language; write the two letters of its code, such as pt",
    ),
    ("scope.languages", "nn", "'nn' is not a known language; write the two letters of its code, such as no"),
    ("scope.languages", "xx", "'xx' is not a known language"),
    ("scope.keep", "some", "[scope] keep: invalid enum value 'some' (allowed: all, structured, faithful)"),
    ("scope.vocabularies", "schema", "[scope] vocabularies belongs to keep"),
    ("scope.syntaxes", "json", "[scope] syntaxes[0]: invalid enum value 'json' (allowed: rdfa, microdata, jsonld)"),
    ("scope.open_graph", "yes", "[scope] open_graph belongs to keep"),
    ("politeness.delay", "soon", "[politeness] delay: not a duration: 'soon'"),
    ("politeness.delays", "*.br", "[politeness] delays: '*.br': write a host pattern and its value in each line"),
    ("politeness.delays", "*.br = soon", "[politeness] delays: not a duration: 'soon'"),
    ("politeness.delays", "a b = 1s", "[politeness] delays: 'a b' is no pattern"),
    ("politeness.delays", "*.br = 1 day", "[politeness] delays.*.br must be 300s at most"),
    ("politeness.delays", "*.br = 1s\n*.br = 2s", "[politeness] delays: '*.br' occurs twice"),
    ("politeness.delay_factor", "much", "[politeness] delay_factor: expected a number"),
    ("politeness.delay_factor", "nan", "[politeness] delay_factor must be"),
    ("politeness.delay_factor", "-1", "[politeness] delay_factor must be 0 or more"),
    ("politeness.delay_max", "0s", "[politeness] delay_max must be 1s or more"),
    ("politeness.backoff", "-1", "[politeness] backoff: not a duration"),
    ("politeness.robots", "maybe", "[politeness] robots: invalid enum value 'maybe' (allowed: obey, ignore)"),
    ("politeness.user_agent", "é", "[politeness] user_agent: 'é' must begin with one word"),
    ("politeness.contact", "a\nb", "[politeness] contact must be one line"),
    ("politeness.contact", "abc", "[politeness] contact: 'abc' names neither a page nor an address"),
    ("politeness.email", "abc", "[politeness] email: 'abc' is no address such as crawl@example.br"),
    ("politeness.email", "a b", "[politeness] email must be one address"),
    ("fetch.bandwidth", "1 KB", "[fetch] bandwidth and host_bandwidth must let a document of size_max pass"),
    ("fetch.host_bandwidth", "0 B", "[fetch] host_bandwidth must be 1000 bytes or more"),
    ("fetch.time_max", "1ms", "[fetch] time_max must be 0.1s or more"),
    ("fetch.connect_timeout", "1ms", "[fetch] connect_timeout must be 0.1s or more"),
    ("fetch.stall_timeout", "1ms", "[fetch] stall_timeout must be 1s or more"),
    ("fetch.hosts_at_once", "0", "[fetch] hosts_at_once must be 1 or more"),
    ("fetch.redirects_max", "-1", "[fetch] redirects_max must be 0 or more"),
    ("fetch.retries", "-1", "[fetch] retries must be 0 or more"),
    ("fetch.host_failures_max", "-1", "[fetch] host_failures_max must be 0 or more"),
    ("strategy.order", "depth", "[strategy] order: invalid enum value 'depth'"),
    ("strategy.favour", "*br", "[strategy] favour: '*br' is no pattern"),
    ("strategy.penalise", '""', "[strategy] penalise: '' is no pattern"),
    ("strategy.table_max", "0", "[strategy] table_max must be 1 or more"),
    ("strategy.cycle", "99999", "[strategy] cycle must be 10000 at most"),
    ("strategy.weights.block", "-1", "[strategy] weights.block must be 0 or more"),
    ("strategy.weights.length", "x", "[strategy] weights.length: expected a number"),
    ("revisit.policy", "soon", "[revisit] policy: invalid enum value 'soon'"),
    ("revisit.rate", "0", "[revisit] rate must be 1e-06 or more"),
    ("revisit.share", "2", "[revisit] share must be more than 0 and at most 1"),
    ("revisit.horizon", "1s", "[revisit] horizon must be 60s or more"),
    ("schedule.start", "tomorrow", "[schedule] start: not a date: 'tomorrow'"),
    ("schedule.start", "2026-01-01T00:00Z", "[schedule] start: write the local time without a zone"),
    ("schedule.every", "often", "[schedule] every: 'often' is no period"),
    ("schedule.timezone", "Mars", "[schedule] timezone: 'Mars' is no time zone"),
    ("notify.webhook", "gopher://a", "[notify] webhook: 'gopher://a' must be an http or https address"),
    ("notify.email", "nobody", "[notify] email: 'nobody' is no address"),
    ("notify.events", "born", "[notify] events[0]: invalid enum value 'born'"),
    ("notify.stalled", "1s", "[notify] stalled must be 10s or more, got 1s"),
    ("network.connect_to", "*.test = x", "[network] connect_to: 'x' is no address:port"),
    (
        "network.connect_to",
        "*.test",
        "[network] connect_to: '*.test': write a host pattern and its value in each line, "
        "such as *.test = 127.0.0.1:8090",
    ),
    ("network.tls", "lax", "[network] tls: invalid enum value 'lax'"),
    ("network.suffixes", "a b", "[network] suffixes: 'a b' is no domain suffix"),
]


@pytest.mark.parametrize(("name", "text", "told"), BAD, ids=[f"{name}={text[:20]!r}" for name, text, _ in BAD])
def test_each_complaint_is_at_its_field(name, text, told):
    table, wrong = table_from_form({"name": ["a"], "roots": ["a.br"]} | {name: [text]})
    found = [*wrong, *complete_and_validate_table(table)[1]]
    field = collection_fields()[name]
    here = [str(one.message) for one in found if (one.section, one.key) == (field.section, field.key)]
    assert [message for message in here if told in message], found
    assert all("\n" not in str(one.message) for one in found)


def test_all_that_is_wrong_is_told_at_once() -> None:
    table, wrong = table_from_form({name: [text] for name, text, _ in BAD if len(text) < 100})
    found = {(one.section, one.key) for one in [*wrong, *complete_and_validate_table(table)[1]]}
    cross = {
        "scope.vocabularies",
        "scope.open_graph",
        "fetch.bandwidth",
    }  # forgiven, where what they depend on is wrong itself
    named = {name for name, text, _ in BAD if len(text) < 100} - cross
    assert {(collection_fields()[name].section, collection_fields()[name].key) for name in named} <= found


def test_two_sections_that_exclude_each_other_complain_at_the_first() -> None:
    form = {"name": ["a"], "roots": ["a.br"], "schedule.every": ["daily"], "revisit.policy": ["index"]}
    assert [(one.section, one.key) for one in complete_and_validate_table(table_from_form(form)[0])[1]] == [
        ("schedule", "every")
    ]


def test_an_unknown_field_and_a_form_without_end_are_refused_in_one_line() -> None:
    assert "unknown field 'colour'" in str(table_from_form({"colour": ["red"]})[1][0].message)
    for name in FILE_ONLY_FIELDS:
        assert "unknown field" in str(table_from_form({name: ["/etc/passwd"]})[1][0].message)
    assert "more than the 128 million" in str(table_from_form({"roots": ["x" * (FORM_CHARS_MAX + 1)]})[1][0].message)


def test_files_are_not_named_from_elsewhere() -> None:
    table = {"name": "a", "roots_file": "/etc/passwd", "network": {"ca_file": "/etc/passwd"}}
    said = [str(one.message) for one in complete_and_validate_table(table)[1]]
    assert any(message.startswith("roots_file: only a collection file can name another file") for message in said)
    assert any(message.startswith("[network] ca_file: only a collection file") for message in said)


def test_a_megabyte_of_roots_is_read() -> None:
    roots = "\n".join(f"host{number}.example.br" for number in range(50_000))
    table, wrong = table_from_form({"name": ["a"], "roots": [roots]})
    assert not wrong
    assert len(complete_collection(table, "form").roots) == 50_000


@pytest.mark.parametrize("language", ["en", "pt"])
def test_how_a_date_is_written_is_said_beside_its_field(language):
    for field in collection_fields().values():
        if field.kind == "date":
            assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d", translator(language).render(FIELD_LABELS[field.name][1])), (
                field.name
            )


def test_every_section_field_and_choice_has_its_label():
    fields = collection_fields().values()
    assert set(FIELD_LABELS) == {one.name for one in fields}
    assert all(label and help_text for label, help_text in FIELD_LABELS.values())
    assert set(CHOICE_LABELS) == {(one.name, value) for one in fields for value in one.choices}
    assert set(SECTION_LABELS) == {one.section for one in fields}


@pytest.mark.parametrize(("name", "text", "told"), BAD, ids=[f"{name}={text[:20]!r}" for name, text, _ in BAD])
def test_every_complaint_of_a_form_is_rendered_in_portuguese(name, text, told):
    table, wrong = table_from_form({"name": ["a"], "roots": ["a.br"]} | {name: [text]})
    for one in [*wrong, *complete_and_validate_table(table)[1]]:
        assert PORTUGUESE.render(one.message) != str(one.message)
