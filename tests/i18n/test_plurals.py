"""No sentence and no output of a command says "1 hosts": `ngettext`, `messages` or `counted` names what is counted.

The nouns are those that these three count anywhere; each of them is looked for behind a number everywhere else.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

import tarrafa
from tarrafa.i18n import catalogue

SOURCE = Path(tarrafa.__file__).parent
ROOMS_THAT_PRINT = ("cli", "simulate", "testweb")
WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
PLACE = r"\{(\w+)(?::,)?\}"
MEASURED = {"factor", "slow", "rank", "mean", "size", "kept", "length", "bandwidth"}  # no counts: "1.5 times the mean"
LIMIT = re.compile(r"limit|most|\w+_(max|MAX)")
BEFORE_A_LIMIT = ("first ", "most ", "than ", "of its ", "page (", "primeiros ", "primeiras ", "máximo ", "ais de ",
                  "suas ")  # fmt: skip
AFTER_TOO_MANY = (" are more than", " are too many", " são mais", " são demais")
Pair = tuple[str, str]


def counted_nouns() -> Iterator[Pair]:
    """What `counted` is called with: `counted(count, "copy", "copies")`."""
    for path in (SOURCE / "cli").glob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "counted":
                words = [str(word.value) for word in call.args[1:] if isinstance(word, ast.Constant)]
                if words:
                    yield words[0], words[1] if len(words) > 1 else f"{words[0]}s"


def entries(language: str) -> tuple[list[Pair], list[str]]:
    """The sentences that depend on a count, and the others."""
    pairs, singles = list[Pair](), list[str]()
    for entry in catalogue.read():
        text = entry.id if language == "en" else entry.string
        if not entry.id or isinstance(text, str):
            singles.append(str(text))
        elif text:
            pairs.append((text[0], text[1]))
    return pairs, singles


def pattern_behind_a_number(pairs: Sequence[Pair]) -> str:
    """Matches what only the second sentence of a pair holds, and ends with an s."""
    words = {word for one, many in pairs for word in set(WORD.findall(many)) - set(WORD.findall(one))}
    return rf" (?:more |different |other )?(?:{'|'.join(sorted(word for word in words if word.endswith('s')))})\b"


def wrong_plurals(pairs: Sequence[Pair], singles: Sequence[str]) -> list[str]:
    """Sentences for one thing, or for any number of them, that name several."""
    pattern, found = re.compile(PLACE + pattern_behind_a_number(pairs)), []
    for text in [*singles, *(one for one, _ in pairs)]:
        for match in pattern.finditer(text):
            is_limit = LIMIT.fullmatch(match[1]) or text[: match.start()].endswith(BEFORE_A_LIMIT)
            is_many = any(words in text[match.end() :] for words in AFTER_TOO_MANY)
            if not (is_limit or is_many or match[1] in MEASURED):
                found.append(f"{match[0]!r} in {text!r}")
    return found


def wrong_plurals_in_code(source: str, pattern: re.Pattern[str]) -> list[str]:
    """Numbers in f-strings with a plural behind them; not `{delay:.1f}`, `{rate:g}`, `{PAGES_MAX}`."""
    found = []
    for text in (one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.JoinedStr)):
        for number, words in pairwise(text.values):
            if not (isinstance(number, ast.FormattedValue) and isinstance(words, ast.Constant)):
                continue
            form = ast.unparse(number.format_spec) if number.format_spec else ""
            is_limit = LIMIT.fullmatch(ast.unparse(number.value).rpartition(".")[2])
            if pattern.match(str(words.value)) and not (is_limit or "." in form or "g" in form):
                found.append(ast.unparse(text))
    return found


@pytest.mark.parametrize("language", ["en", "pt"])
def test_no_sentence_of_the_catalogue_names_several_where_there_is_one(language):
    pairs, singles = entries(language)
    assert wrong_plurals([*pairs, *(counted_nouns() if language == "en" else ())], singles) == []


def test_no_command_prints_a_number_before_a_plural_without_counting():
    pattern = re.compile(pattern_behind_a_number([*entries("en")[0], *counted_nouns()]))
    paths = [path for room in ROOMS_THAT_PRINT for path in (SOURCE / room).rglob("*.py")]
    assert {str(path): wrong for path in paths if (wrong := wrong_plurals_in_code(path.read_text(), pattern))} == {}


def test_no_template_shows_a_number_before_a_plural_without_counting():
    shown = re.compile(r"\}\} \{\{ _\(\"" + pattern_behind_a_number(entries("en")[0])[1:])
    paths = (SOURCE / "server" / "templates").rglob("*.html")
    assert [(path.name, match[0]) for path in paths for match in shown.finditer(path.read_text())] == []


PAIRS = [("{count} page", "{count} pages")]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{n} pages are kept", 1),
        ("{n:,} more pages", 1),
        ("of {a} and {pages} pages", 1),
        ("pages: {n}", 0),
        ("more than {n} pages", 0),
        ("{limit} pages at most", 0),
        ("{n} pages are more than the {limit} allowed", 0),
        ("{rank} pages", 0),
    ],
)
def test_the_check_knows_counts_from_limits(text, wrong):
    assert len(wrong_plurals(PAIRS, [text])) == wrong


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ('f"{n} pages"', 1),
        ('f"{len(some) - 2:,} more pages"', 1),
        ('f"{rate:.1f} pages a second"', 0),
        ('f"at most {PAGES_MAX:,} pages"', 0),
        ("f\"{counted(n, 'page')} of pages\"", 0),
    ],
)
def test_the_check_reads_code(source, wrong):
    assert len(wrong_plurals_in_code(source, re.compile(pattern_behind_a_number(PAIRS)))) == wrong
