"""The interface in English and Portuguese: messages, plural forms, numbers; and a catalogue without gaps."""

from datetime import datetime
from io import BytesIO

import msgspec
import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo, write_mo

from tarrafa.config.formats import Seconds
from tarrafa.i18n import ENGLISH, PORTUGUESE, Message, joined, message, messages, translator, zoned_moment
from tarrafa.i18n import catalogue as catalogues
from tarrafa.model import Status


def test_every_sentence_of_the_interface_is_translated():
    assert catalogues.complaints(catalogues.read()) == []


def test_the_compiled_catalogue_is_that_of_the_source():
    source = BytesIO()
    write_mo(source, catalogues.read())
    source.seek(0)
    with catalogues.PATH.with_suffix(".mo").open("rb") as compiled:
        assert _sentences(read_mo(compiled)) == _sentences(read_mo(source)), "run make"


def _sentences(catalogue: Catalog) -> dict[object, object]:
    return {str(entry.id): entry.string for entry in catalogue if entry.id}


def test_a_message_travels_as_its_key_with_values():
    sent = messages("{count} page of {host}", "{count} pages of {host}", 1234, host="a.br")
    got = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=Message)
    assert got == sent
    assert str(got) == "1,234 pages of a.br"


def test_a_value_of_a_type_of_its_own_travels_as_what_it_is():
    sent = messages("{count} page in {wait:g} s, {status}", "", 1, wait=Seconds(2.5), status=Status.TOO_SLOW)
    assert str(msgspec.json.decode(msgspec.json.encode(sent), type=Message)) == "1 page in 2.5 s, −10"


def test_values_are_not_read_as_part_of_a_sentence():
    assert str(message("{what} matches", what="{0} %s {what}")) == "{0} %s {what} matches"


@pytest.mark.parametrize(
    "text", ["{x.__class__}", "{x[0]}", "{x!s}", "{x:>999999999}", "{0}", "{", "}", "{}", "{y}", "{x:{y}}"]
)
def test_a_place_is_a_name_and_a_short_format_or_no_place(text):
    assert str(message(text, x=1)) == text.replace("{{", "{")


def test_doubled_braces_are_braces():
    assert str(message("{{{n:g}}} }}", n=2.5)) == "{2.5} }"


def test_a_message_may_hold_another_one():
    assert str(message("{outside}; kept", outside=message("{n:g} days", n=2.5))) == "2.5 days; kept"


def test_texts_of_others_stay_as_they_are():
    assert PORTUGUESE.render("Connection reset by {peer}") == "Connection reset by {peer}"


@pytest.mark.parametrize(
    ("number", "places", "english", "portuguese"),
    [(1234, 0, "1,234", "1.234"), (-0.4, 0, "0", "0"), (-1234.56, 1, "−1,234.6", "−1.234,6"), (0, 2, "0.00", "0,00")],
)
def test_numbers_are_written_as_each_language_writes_them(number, places, english, portuguese):
    assert ENGLISH.number(number, places) == english
    assert PORTUGUESE.number(number, places) == portuguese


def test_sizes_and_spans():
    assert [PORTUGUESE.size(size) for size in (0, 999, 1234, 5_600_000)] == ["0 B", "999 B", "1,23 kB", "5,60 MB"]
    spans = ["0.0 ms", "0.02 ms", "50.0 ms", "3.5 s", "2 min 05 s", "3 h 20 min"]
    assert [ENGLISH.span(s) for s in (0, 0.00002, 0.05, 3.5, 125, 12_000)] == spans


def test_names_of_languages_come_from_babel():
    assert (ENGLISH.language_name("pt-BR"), PORTUGUESE.language_name("en")) == ("Portuguese", "Inglês")
    assert ENGLISH.language_name("xx-nonsense") == ""


def test_an_unknown_language_is_english():
    assert translator("tlh") is ENGLISH


def test_a_value_may_be_quoted():
    assert str(message("there is no {name!r}", name="a{b}")) == "there is no 'a{b}'"


def test_moments_and_waits_are_written_by_babel():
    text = message(
        "starts on {at:moment} ({wait:ahead})",
        at=zoned_moment(datetime(2026, 12, 1, 3), "America/Sao_Paulo"),
        wait=15 * 86_400.0,
    )
    assert str(text) == "starts on Tuesday 2026-12-01 at 03:00 America/Sao_Paulo (in 15 days)"
    assert PORTUGUESE.render(text) == "começa terça-feira 2026-12-01 às 03:00 America/Sao_Paulo (em 15 dias)"


def test_every_message_in_a_structure_is_rendered_for_programs():
    told = {"notes": [message("now"), "as it is"], "count": 3}
    assert PORTUGUESE.render_all(told) == {"notes": ["agora", "as it is"], "count": 3}
    assert PORTUGUESE.render_all(joined([message("now"), "x"])) == "agora; x"
