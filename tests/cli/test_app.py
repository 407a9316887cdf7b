"""The command line: what is wrong is said in one line, with exit status 2, and nothing is damaged."""

import os
import resource
import shutil
import socket
import subprocess
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tarrafa.cli import app, main
from tarrafa.errors import DataError
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import TYPES, a_journey, tarrafa
from tests.warc_check import check_warc_file

ONE_PAGE = 'name = "c"\nroots = ["http://h0001.br.test/"]\n'


def fails(told: str, *arguments: str | Path, **settings: object) -> None:
    done = tarrafa(*arguments, **settings)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert told in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = [", "bad.toml: not valid TOML"),
        (ONE_PAGE + "nmae = 1\n", "bad.toml: unknown key 'nmae'"),
        ('name = "c"\nroots = ["no url"]\n', "bad.toml: roots[0]: not an http(s) URL or a host name: 'no url'"),
    ],
)
def test_a_bad_collection_file_is_refused_before_anything_is_made(tmp_path, text, told):
    (tmp_path / "bad.toml").write_text(text)
    fails(told, "crawl", tmp_path / "bad.toml", "--data", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("frontier", [(), ("--frontier", "tcp://127.0.0.1:1")])
def test_a_store_needs_a_frontier_in_postgresql_and_nothing_is_waited_for(tmp_path, frontier):
    (tmp_path / "good.toml").write_text(ONE_PAGE)
    command = ("crawl", tmp_path / "good.toml", "--store", "s3://crawl/archive", "--data", tmp_path / "data", *frontier)
    fails("--store s3://crawl/archive: needs a frontier in PostgreSQL", *command)


@pytest.mark.parametrize(
    "command",
    [
        ("crawl", "good.toml"), ("status",), ("search", "x"), ("links", "http://a.br/"), ("serve",),
        ("sparql", "ASK {}"), ("curation", "check"), ("takedown", "add", "http://a.br/"),
    ],
)  # fmt: skip
def test_data_of_a_newer_version_are_not_touched(tmp_path, command):
    (tmp_path / "good.toml").write_text(ONE_PAGE)
    data = tmp_path / "data"
    data.mkdir()
    (data / "VERSION").write_text("999\n")
    (data / "precious").write_text("x")
    fails("written by a newer Tarrafa (data format 999", *command, "--data", data, cwd=tmp_path)
    assert sorted(path.name for path in data.iterdir()) == ["VERSION", "precious"]


def test_a_directory_with_other_things_in_it_is_not_taken_for_ours(tmp_path):
    (tmp_path / "good.toml").write_text(ONE_PAGE)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.odt").write_text("x")
    fails("not empty, and no Tarrafa data directory", "crawl", tmp_path / "good.toml", "--data", tmp_path / "data")


@pytest.mark.parametrize(
    "command",
    [("status",), ("search", "x"), ("links", "http://a.br/"), ("serve",), ("rebuild", "index"), ("entities", "x")],
)
def test_asking_where_nothing_was_crawled_says_so(tmp_path, command):
    fails("no Tarrafa data here", *command, "--data", tmp_path / "none")


def test_a_port_in_use_is_said_before_anything_starts(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        told = f"127.0.0.1:{port}: the port is already in use"
        fails(told, "demo", "--port", port, "--data", tmp_path / "demo", "--exit")
        assert not (tmp_path / "demo").exists()
        fails(told, "testweb", "--port", port)


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """A command that fails, without a process of its own; what it says."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["tarrafa", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said: str = capsys.readouterr().err
        assert (ended.value.code, len(said.strip().splitlines())) == (2, 1), said
        return said

    return run


@pytest.mark.parametrize(
    ("told", "command"),
    [
        ("put it into a file and use --token-file FILE", ("worker", "--frontier", "tcp://a.br:1", "--token", "x")),
        ("or leave the password out and give it by PGPASSWORD", ("status", "--frontier", "postgresql://u:pw@h/db")),
        ("so it needs a token: --token-file FILE", ("frontier", "serve", "--listen", "0.0.0.0:8070")),
        ("--frontier ADDRESS is missing (or TARRAFA_FRONTIER)", ("worker",)),
        ("--join: the coordinator names the front", ("node", "--join", "http://a.br:1", "--listen", "127.0.0.1:0")),
        ("tcp://127.0.0.1:9: no frontier server answers here", ("pause", "x", "--frontier", "tcp://127.0.0.1:9")),
        ("letters, digits, '.', '_' and '-'", ("worker", "--frontier", "tcp://a.br:1", "--name", "a/b")),
    ],
)
def test_secrets_on_the_command_line_and_frontiers_that_cannot_be_are_refused(told, command, tmp_path, here):
    assert told in here(*command)
    assert not list(tmp_path.iterdir()), "nothing was made"


@pytest.mark.parametrize("command", [("node",), ("crawl", "c.toml")])
def test_a_remote_frontier_named_by_the_environment_cannot_be_served_either(command, tmp_path, here, monkeypatch):
    (tmp_path / "c.toml").write_text('name = "c"\nroots = ["http://a.br/"]\n')
    monkeypatch.setenv("TARRAFA_FRONTIER", "tcp://127.0.0.1:9")
    said = here(*command, "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"))
    assert "--listen: a remote frontier cannot be served from here; leave out --frontier and TARRAFA_FRONTIER" in said


def test_asking_a_node_for_its_frontier_says_where_to_ask(tmp_path, here):
    DataDirectory(tmp_path / "node").create()
    said = here("status", "--data", str(tmp_path / "node"))
    assert "is missing; of a frontier that is elsewhere ask with --frontier" in said
    assert "nothing runs here; `tarrafa crawl FILE` goes on" in here("pause", "x", "--data", str(tmp_path / "node"))


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 48 MB: 32 of them are the reserve, so it is full within seconds."""
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small file system")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "none", mount], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a tmpfs")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def test_a_full_disk_stops_the_crawl_with_one_line_and_nothing_is_damaged(tmp_path, small_disk):
    journey = a_journey(tmp_path, World(seed=2, hosts=30, pages=1500))
    with journey.web:
        file, data = journey.write_collection(), small_disk / "data"
        full = tarrafa("crawl", file, "--data", data, "--quiet")
        assert full.returncode == 2, full.stderr
        assert "the disk is full" in full.stderr
        assert str(data) in full.stderr
        assert len(full.stderr.strip().splitlines()) == 1, full.stderr
        before = tarrafa("status", "--data", data)
        assert "the disk is full" in before.stdout
        subprocess.run(["mount", "-o", "remount,size=400m", small_disk], check=True)
        done = tarrafa("crawl", file, "--data", data, "--quiet")
        assert done.returncode == 0, done.stderr
        for path in (data / "archive").glob("*.warc.gz"):
            check_warc_file(path)


@pytest.mark.parametrize("limit", [60_000, 400_000])
def test_a_write_that_fails_stops_the_crawl_with_one_line_and_nothing_is_damaged(tmp_path, limit):
    """As on a disk that somebody else fills: no file may grow beyond a limit, the kernel refuses the write."""
    journey = a_journey(tmp_path, World(seed=2, hosts=10, pages=300))
    with journey.web:
        file = journey.write_collection()
        squeeze = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        full = tarrafa("crawl", file, "--data", journey.data.root, "--quiet", preexec_fn=squeeze)
        assert full.returncode == 2, full.stderr
        assert "the disk is full" in full.stderr
        assert len(full.stderr.strip().splitlines()) == 1, full.stderr
        journey.crawl(file)
        assert (
            set(journey.kept())
            == expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True).kept
        )
        for path in journey.data.archive.glob("*.warc.gz"):
            check_warc_file(path)


def test_every_command_has_a_help_that_says_what_it_does():
    top = tarrafa("--help").stdout
    for name, command in app.COMMANDS.items():
        assert name in top
        assert command.summary in top
        assert app.load_command(name).help.splitlines()[0] == command.summary
        help_text = CliRunner().invoke(app.app, [name, "--help"]).stdout
        assert command.summary.split(".")[0].split(";")[0][:40] in " ".join(help_text.split())


def test_init_writes_a_file_that_crawl_accepts_and_never_overwrites(tmp_path):
    from tarrafa.crawl.scope.collection_loader import load_collection

    assert tarrafa("init", tmp_path / "My-site.toml", "--root", "https://www.usp.br/").returncode == 0
    assert load_collection(tmp_path / "My-site.toml").roots == ("https://www.usp.br/",)
    fails("exists already", "init", tmp_path / "My-site.toml")


@pytest.fixture
def questions(monkeypatch, tmp_path):
    """What `search` asks: the query and its number of results."""
    DataDirectory(tmp_path / "d").create()
    asked: list[tuple[str, int, str]] = []

    def search(searcher: Searcher, question: SearchRequest) -> SearchResult:
        asked.append((question.text, question.n, question.like))
        return SearchResult(question.text, 0, 0.0, [], None, [])

    monkeypatch.setattr(Searcher, "search", search)
    monkeypatch.setenv("TARRAFA_DATA", str(tmp_path / "d"))
    return asked


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["praia", "-mar"], ("praia -mar", 10, "")),
        (["praia", "-n", "3"], ("praia", 3, "")),
        (["-n3", "praia", "-noite", "-h", "-5", "+sol"], ("praia -noite -h -5 +sol", 3, "")),
        (["--limit", "7", "-natal", "praia"], ("-natal praia", 7, "")),
        (["praia", "--", "-n", "--limit"], ("praia -n --limit", 10, "")),
        (["-(a OR b) praia"], ("-(a OR b) praia", 10, "")),
        (["praia", "--like", "-x"], ("praia", 10, "-x")),
    ],
)
def test_search_knows_excluded_words_from_options(questions, arguments, asked):
    done = CliRunner().invoke(app.app, ["search", *arguments])
    assert done.exit_code == 0, done.output
    assert questions == [asked]


@pytest.mark.parametrize("option", ["--colection", "--limt", "--results", "--praia"])
def test_search_refuses_an_option_that_it_does_not_know(questions, option):
    done = CliRunner().invoke(app.app, ["search", "praia", option, "3"])
    assert done.exit_code == 2
    assert f"No such option: {option}" in done.output
    assert not questions


def test_a_new_data_directory_may_have_an_empty_mounted_folder(tmp_path):
    (tmp_path / "d" / "archive" / "lost+found").mkdir(parents=True)
    (tmp_path / "d" / "index").mkdir()
    DataDirectory(tmp_path / "d").create()
    assert DataDirectory(tmp_path / "d").version.exists()


@pytest.mark.parametrize("path", ["archive/a.warc.gz", "photos/a.jpg", "archive"])
def test_a_folder_with_something_of_others_is_not_taken_for_a_new_data_directory(tmp_path, path):
    (tmp_path / "d" / path).parent.mkdir(parents=True)
    (tmp_path / "d" / path).write_text("x")
    with pytest.raises(DataError, match="not empty, and no Tarrafa data directory"):
        DataDirectory(tmp_path / "d").create()
