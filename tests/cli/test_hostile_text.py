"""Text of crawled pages cannot command the terminal: titles, anchors, URLs, statements, headers, robots.txt."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarrafa.cli import main
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import escape_unprintable, printable
from tarrafa.server.search.query_log import QueryLog
from tests.journey.crawl_journey import TIMEOUT_S, tarrafa
from tests.journey.scripted_web import ScriptedResponse, scripted_web

EVIL = "\x1b[31m\x1b]0;pwned\x07\x9b2J\x90q\x9c\x08\x7f\u202egnp\u202c\u2066x\u2069\u200e\u200f\u061c\u2028"
REFERENCES = "".join(f"&#{ord(sign)};" for sign in EVIL)
FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOME, OTHER = "http://a.test/", f"http://a.test/x{EVIL}?q={EVIL}"

PAGE = f"""<html lang="pt"><head><title>Praia {EVIL} {REFERENCES} bonita</title>
<meta name="description" content="{EVIL}">
</head><body vocab="http://schema.org/"><p>praia {EVIL}{REFERENCES} mar</p>
<a href="/x{EVIL}?q={REFERENCES}" rel="{EVIL}">anchor {EVIL}{REFERENCES} text</a>
<a href="http://down.test/{EVIL}">gone {EVIL}</a>
<div typeof="Person" resource="#me"><span property="name">Ana {EVIL}{REFERENCES}</span>
<span property="description" lang="en">first{EVIL}
second</span></div></body></html>""".encode()
ROBOTS = f"User-agent: *\nDisallow: /no{EVIL}\n# {EVIL}\nSitemap: http://a.test/{EVIL}.xml\n".encode()

COMMANDS: list[tuple[str, ...]] = [
    ("search", "praia"),
    ("search", EVIL),
    ("search", "--suggest", "pra"),
    ("versions", HOME),
    ("show", HOME),
    ("show", HOME, "--markdown"),
    ("show", HOME, "--json"),
    ("diff", HOME, "2026", "2027"),
    ("page", HOME),
    ("page", OTHER),
    ("site", "a.test"),
    ("site", "down.test"),
    ("links", HOME),
    ("links", OTHER),
    ("explain", HOME),
    ("explain", OTHER),
    ("explain", f"http://down.test/{EVIL}"),
    ("entities",),
    ("entities", "--list", "classes"),
    ("entities", "--list", "properties"),
    ("sparql", "SELECT * { ?s ?p ?o }"),
    ("status",),
    ("top", "--once"),
    ("takedown", "list"),
    ("query-log",),
    ("sql", "SELECT url, title, text, server FROM pages JOIN visits USING (url)"),
    ("sql", "SELECT * FROM links"),
    ("sql", "SELECT * FROM entities"),
]
DOCUMENTS: list[tuple[str, ...]] = [
    ("sparql", "SELECT * { ?s ?p ?o }", "--format", "tsv"),
    ("sparql", "CONSTRUCT WHERE { ?s ?p ?o }", "--format", "ttl"),
    ("sparql", "CONSTRUCT WHERE { ?s ?p ?o }", "--format", "nt"),
    ("report", "c", "--json"),
    ("export", "statements", "-"),
    ("export", "frontier", "-", "--format", "jsonl"),
    ("export", "pages", "-"),
    ("export", "pages", "-", "--format", "markdown"),
    ("sql", "SELECT * FROM pages", "--json"),
]


def answer(url: str, number: int) -> ScriptedResponse | None:
    if url.endswith("/robots.txt"):
        return ScriptedResponse(ROBOTS)
    if "down.test" in url:
        return ScriptedResponse(reset=True)
    headers = {"Content-Type": "text/html; charset=utf-8", "Server": "evil\x1b[31m/\x9b1"}
    return ScriptedResponse(PAGE, headers=headers)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hostile")
    with scripted_web(answer) as web:
        file = web.collection(folder, [HOME], "[fetch]\nhost_failures_max = 1\nretries = 0", "depth_max = 2")
        done = tarrafa("crawl", file, "--data", folder / "data", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert not FORBIDDEN.search(done.stdout + done.stderr)
    tarrafa("takedown", "add", "http://b.test/", "--reason", EVIL, "--data", folder / "data")
    assert tarrafa("export", "parquet", "--data", folder / "data").returncode == 0
    with QueryLog(DataDirectory(folder / "data")) as log:
        log.record(f"praia {EVIL}", 1)
        log.record("praia \N{SOFT HYPHEN}", 0)
    yield folder / "data"


def run_in_terminal(*arguments: str | Path) -> str:
    """What the command writes to a real terminal, without the program's colours."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", *map(str, arguments)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
    ) as run:
        os.close(theirs)
        content = b""
        try:
            while block := os.read(ours, 65536):
                content += block
        except OSError:  # the end of a terminal
            pass
        run.wait(TIMEOUT_S)
    os.close(ours)
    return COLOURS.sub("", content.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize("command", [*COMMANDS, *((*one, "--json") for one in COMMANDS if one[0] != "top"), *DOCUMENTS])
def test_no_command_prints_control_characters_of_others(crawled, command, monkeypatch, capfd):
    monkeypatch.setattr("sys.argv", ["tarrafa", *command, "--data", str(crawled)])
    with pytest.raises(SystemExit) as ended:
        main()
    done = capfd.readouterr()
    assert done.out or OTHER in command, (ended.value.code, done.err)
    assert not FORBIDDEN.search(done.out + done.err), done


@pytest.mark.parametrize(
    "command",
    [
        ("page", HOME),
        ("links", HOME),
        ("search", "praia"),
        ("sparql", "SELECT * { ?s ?p ?o }", "--format", "csv"),
        ("sparql", "SELECT * { ?s ?p ?o }", "--format", "xml"),
        ("explain", f"no url {EVIL}"),
    ],
)
def test_a_terminal_receives_only_the_colours_of_the_program(crawled, command):
    shown = run_in_terminal(*command, "--data", crawled)
    assert shown
    assert not FORBIDDEN.search(shown), (command, shown)


def test_printable_text_keeps_letters_spaces_and_lines():
    assert printable("São\N{NO-BREAK SPACE}Paulo\n\tمی\N{ZERO WIDTH NON-JOINER}خواهم") == (
        "São\N{NO-BREAK SPACE}Paulo\n\tمی\N{ZERO WIDTH NON-JOINER}خواهم"
    )
    assert printable(EVIL) == "[31m]0;pwned2Jqgnpx"
    assert escape_unprintable("\x9b\u202e") == "\\u009b\\u202e"
