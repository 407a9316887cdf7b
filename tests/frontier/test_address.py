"""Where the frontier is: what can be meant, what is refused, and that no secret is ever shown."""

import stat
from pathlib import Path

import pytest

from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.child_processes import ChildProcess, terminate
from tarrafa.errors import ConfigError, FrontierError, Unreachable
from tarrafa.frontier.address import (
    FRONTIER_VARIABLE,
    Address,
    EventLoopClient,
    OpenFrontier,
    PostgresServers,
    TcpServer,
    UnixSocket,
    address_from_supervisor,
    child_environment,
    connect,
    connect_blocking,
    from_command_line,
    from_environment,
    parse_address,
    redact_address,
)
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token, load_token
from tests.contract.frontier_bodies import SUFFIXES
from tests.wait import wait_until

SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch):
    monkeypatch.delenv(FRONTIER_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("unix:/data/run/frontier.sock", UnixSocket("/data/run/frontier.sock")),
        ("unix:a folder/frontier.sock", UnixSocket("a folder/frontier.sock")),
        ("tcp://10.0.0.7:8070", TcpServer("10.0.0.7", 8070)),
        ("tcp://urls.example.br:8070/", TcpServer("urls.example.br", 8070)),
        ("tcp://[::1]:8070", TcpServer("::1", 8070)),
        ("postgresql://tarrafa@db/urls", PostgresServers(("postgresql://tarrafa@db/urls",))),
        ("postgres://db:5433/urls", PostgresServers(("postgres://db:5433/urls",))),
        ("postgresql:///urls?host=/run/postgresql", PostgresServers(("postgresql:///urls?host=/run/postgresql",))),
        ("postgresql://one:5432,two:5433/urls", PostgresServers(("postgresql://one:5432,two:5433/urls",))),
    ],
)
def test_an_address_is_read_as_it_is_meant(text, meant):
    assert parse_address([text]) == meant
    assert parse_address(parse_address([text]).texts()) == meant


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], "no address; one is written unix:PATH, tcp://HOST:PORT or postgresql://"),
        (["http://a.br/"], "not an address of a frontier: 'http://a.br/'"),
        (["unix:"], "unix: needs a path"),
        (["tcp://a.br"], "'tcp://a.br': HOST:PORT is wanted, such as 127.0.0.1:8070"),
        (["tcp://a.br:http"], "HOST:PORT is wanted"),
        (["tcp://a.br:0"], "a port is a number from 1 to 65535"),
        (["tcp://a.br:70000"], "a port is a number from 1 to 65535"),
        (["tcp://::1:8070"], "an IPv6 address is written in brackets"),
        (["tcp://a.br:80/path"], "HOST:PORT is wanted"),
        (["postgresql://"], "names a server and a database"),
        (["postgresql://db:port/urls"], "not an address of a PostgreSQL server"),
        (["postgresql://one/urls", "tcp://a.br:8070"], "tcp://a.br:8070 is none"),
        (["postgresql://one/urls", "postgresql://one/urls"], "named twice"),
        (["tcp://a.br:8070\x00"], "printable characters"),
        (["unix:" + "x" * 3000], "at most 2,000"),
    ],
)
def test_what_cannot_be_meant_is_said_in_one_line(texts, told):
    with pytest.raises(ConfigError) as error:
        parse_address(texts)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


SECRETIVE = [
    f"postgresql://tarrafa:{SECRET}@db:5432/urls",
    f"postgresql://tarrafa:{SECRET}@one:5432,two:5432/urls?sslmode=require",
    f"postgresql://tarrafa@db/urls?password={SECRET}&sslmode=require",
    f"postgresql:///urls?host=/run/postgresql&user=tarrafa&password={SECRET}",
    f"postgresql://tarrafa:{SECRET}@one:5432,[::1]:5433/urls?target_session_attrs=read-write",
    f"postgresql://db/urls?sslpassword={SECRET}",
]
SLIPS = [
    f"postgresql://tarrafa:{SECRET}",  # the host was forgotten
    f"postgresql://tarrafa:{SECRET}/x@db/urls",  # a character that should have been escaped
    f"postgresql://tarrafa:x?{SECRET}@db/urls",
    f"postgresql://tarrafa:x@{SECRET}@db/urls",
    f"postgresql://tarrafa:x@one,tarrafa:{SECRET}@two/urls",  # a login belongs to all hosts
    f"postgresql://tarrafa:[{SECRET}@db/urls",
    f"postgre://tarrafa:{SECRET}@db/urls",
    f"tarrafa:{SECRET}@db",
    f"tcp://{SECRET}@urls.example.br:8070",
    f"tcp://urls.example.br:8070?token={SECRET}",
    f"tcp://:{SECRET}@urls.example.br:8070",
]


@pytest.mark.parametrize("text", SECRETIVE)
def test_a_password_is_never_shown_and_never_taken_from_the_command_line(text):
    address = parse_address([text, "postgresql://other/urls"])
    for shown in (str(address), repr(address), f"{address}", redact_address(text), str([address])):
        assert SECRET not in shown
        assert "urls" in shown
    with pytest.raises(ConfigError) as error:
        from_command_line([text])
    assert SECRET not in str(error.value)
    assert FRONTIER_VARIABLE in str(error.value)
    assert "PGPASSWORD" in str(error.value)


def test_an_address_with_several_hosts_is_shown_whole():
    text = "postgresql://tarrafa@one:5432,[::1]:5433,three/urls?target_session_attrs=read-write"
    assert str(parse_address([text])) == redact_address(text) == text


@pytest.mark.parametrize("text", SLIPS)
def test_nor_does_a_message_about_a_slip_of_the_pen_show_it(text):
    with pytest.raises(ConfigError) as error:
        from_command_line([text])
    assert SECRET not in str(error.value)
    assert SECRET not in redact_address(text)


def test_a_token_is_never_shown():
    address = TcpServer("a.br", 8070, Token(SECRET.encode()))
    for shown in (str(address), repr(address), repr(address.token), str(address.token)):
        assert SECRET not in shown


def test_the_environment_may_hold_whole_addresses(monkeypatch):
    one, two = SECRETIVE[0], SECRETIVE[1]
    for text in (f"{one} {two}", f"{one},{two}", f" {one} ,\n{two}, "):
        monkeypatch.setenv(FRONTIER_VARIABLE, text)
        assert from_environment() == from_command_line(None) == PostgresServers((one, two))
    assert from_command_line(["tcp://a.br:1"]) == TcpServer("a.br", 1), "the command line goes first"
    monkeypatch.setenv(FRONTIER_VARIABLE, " ")
    assert from_environment() is None
    with pytest.raises(ConfigError, match="started by a supervisor"):
        address_from_supervisor()


@pytest.mark.parametrize(
    "address",
    [
        UnixSocket("/my data/run/frontier.sock"),
        TcpServer("::1", 8070, Token(SECRET.encode())),
        TcpServer("a.br", 8070),
        PostgresServers(tuple(SECRETIVE)),
    ],
)
def test_a_child_finds_what_its_supervisor_meant(address, monkeypatch):
    for name, value in child_environment(address, Clock.real()).items():
        monkeypatch.setenv(name, value)
    assert address_from_supervisor() == address


def test_a_token_comes_from_a_file_that_nobody_else_can_read(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    for mode in (0o640, 0o604, 0o660, 0o644):
        file.chmod(mode)
        with pytest.raises(ConfigError, match="other users can read this token; `chmod 600"):
            load_token(file)
    file.chmod(0o600)
    assert load_token(file) == Token(SECRET.encode())
    assert from_command_line(["tcp://a.br:8070"], file) == TcpServer("a.br", 8070, Token(SECRET.encode()))
    monkeypatch.setenv(TOKEN_VARIABLE, SECRET)
    assert load_token(None) == Token(SECRET.encode())
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    assert not load_token(None)


@pytest.mark.parametrize("content", [b"short", b"", b"x" * 1025, b"two lines\nof some length", b"\xff" * 20])
def test_a_token_that_is_none_is_refused_and_not_shown(tmp_path, content):
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="openssl rand") as error:
        load_token(file)
    assert "two lines" not in str(error.value)
    with pytest.raises(ConfigError, match="cannot read the token"):
        load_token(tmp_path / "none")


def test_listening_beyond_this_machine_needs_a_token():
    token = Token(SECRET.encode())
    for text in ("0.0.0.0:8070", "[::]:8070"):
        with pytest.raises(ConfigError, match="needs a token"):
            frontier_server.parse_listen_address(text, Token())
        assert frontier_server.parse_listen_address(text, token)[1] == 8070
    for text in ("127.0.0.1:0", "127.9.9.9:8070", "[::1]:8070", "localhost:8070"):
        assert frontier_server.parse_listen_address(text, Token())
    with pytest.raises(ConfigError, match=r"no-such-host\.invalid is not an address of this machine"):
        frontier_server.parse_listen_address("no-such-host.invalid:8070", Token())


async def test_no_secret_is_on_the_command_line_of_a_child(tmp_path):
    """What `ps` shows to everybody, of a real child that was given a password and a token."""
    data = DataDirectory(tmp_path / "data")
    data.create()
    child = ChildProcess.for_module(data, "index", "tarrafa.crawl.supervisor.followers", projection="index")

    async def look(address: Address) -> None:
        process = await child.start(child_environment(address, Clock.real()))
        try:
            await wait_until(Path(f"/proc/{process.pid}/cmdline").read_bytes, "exec is through")
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            assert b"tarrafa.crawl.supervisor.followers" in shown or b"python" in shown
            assert SECRET.encode() not in shown
            kept = Path(f"/proc/{process.pid}/environ")
            assert not stat.S_IMODE(kept.stat().st_mode) & 0o077, "only we can read this"
            assert SECRET.encode() in kept.read_bytes()
        finally:
            await terminate([child])

    await look(PostgresServers((SECRETIVE[0],)))
    await look(TcpServer("127.0.0.1", 1, Token(SECRET.encode())))


async def test_a_frontier_that_is_not_there_is_unreachable(tmp_path):
    for address in (UnixSocket(str(tmp_path / "no.sock")), TcpServer("127.0.0.1", 9)):
        with pytest.raises(Unreachable, match="no frontier server answers here"):
            await connect(address)
        with pytest.raises(Unreachable, match="no frontier server answers here"):
            connect_blocking(address)


def test_any_body_serves_a_thread_as_a_blocking_line(tmp_path):
    async def opened() -> OpenFrontier:
        return SqliteFrontier(tmp_path / "frontier.sqlite", Clock.real(), SUFFIXES)

    blocking = EventLoopClient(opened)
    assert blocking.call("collections") == []
    with pytest.raises(FrontierError, match="no collection is named 'x'"):
        blocking.call("set_state", "x", "paused", "")
    with pytest.raises(FrontierError, match="has no call 'nonsense'"):
        blocking.call("nonsense")
    blocking.close()


async def test_postgresql_is_asked_for_only_where_it_is_wanted(monkeypatch):
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name="asyncpg")

    monkeypatch.setattr("tarrafa.frontier.address.importlib.import_module", absent)
    with pytest.raises(ConfigError, match=r"needs asyncpg, which is not installed: pip install 'tarrafa\[cluster\]'"):
        await connect(PostgresServers((SECRETIVE[0],)))
