"""Collection files: what is accepted is complete, what is refused says where and why."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.config.formats import parse_name_server
from tarrafa.config.sections import HostMatcher, PolitenessConfig, UrlScoreWeights
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.errors import ConfigError

GOOD = """
name  = "br-sample"
roots = ["https://www.example.br/", "Example.ORG", "http://[2001:db8::1]:8080/a b"]
[scope]
hosts = ["*.br"]
size_max = "200 KB"
[politeness]
delay = "500ms"
[fetch]
time_max = "10 min"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(text)
    return path


def test_a_good_file_is_complete_and_its_roots_are_canonical(tmp_path):
    collection = load_collection(written(tmp_path, GOOD))
    assert collection.roots == ("https://www.example.br/", "http://example.org/", "http://[2001:db8::1]:8080/a%20b")
    assert (collection.scope.size_max, collection.politeness.delay, collection.fetch.time_max) == (200_000, 0.5, 600.0)
    assert config.decode_collection(config.encode_collection(collection)) == collection


def test_hosts_absent_means_exactly_the_roots_hosts(tmp_path):
    collection = load_collection(written(tmp_path, 'name = "a"\nroots = ["http://a.br/x", "http://b.br:8080/"]'))
    assert collection.scope.hosts == ("a.br", "b.br:8080")
    matches = collection.host_matcher.matches
    assert matches("a.br", "")
    assert matches("b.br", "8080")
    assert not matches("b.br", "")
    assert not matches("www.a.br", "")


def test_roots_come_from_a_file_too_one_url_or_host_per_line(tmp_path):
    (tmp_path / "roots.txt").write_text(
        "# the universities\nusp.br  # the largest\n\nhttps://www.unicamp.br/unicamp/\n"
    )
    collection = load_collection(written(tmp_path, 'name = "a"\nroots_file = "roots.txt"'))
    assert collection.roots == ("http://usp.br/", "https://www.unicamp.br/unicamp/")


def test_tens_of_thousands_of_roots_are_read(tmp_path):
    (tmp_path / "roots.txt").write_text("".join(f"host{number}.br\n" for number in range(50_000)))
    assert len(load_collection(written(tmp_path, 'name = "a"\nroots_file = "roots.txt"')).roots) == 50_000


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "not valid TOML"),
        ('roots = ["a.br"]', "name is missing"),
        ('name = "a"', "roots: at least one"),
        ('name = "A b"\nroots = ["a.br"]', "name: 'A b' must begin with a-z or 0-9, and have only a-z"),
        ('name = ".hidden"\nroots = ["a.br"]', "name: '.hidden' must begin with a-z or 0-9, and have only a-z"),
        ('name = "a"\nroots = ["not a url"]', "roots[0]: not an http(s) URL or a host name: 'not a url'"),
        ('name = "a"\nroots = ["a.br", "ftp://a.br/"]', "roots[1]: not an http(s) URL"),
        ('name = "a"\nroots = ["javascript:alert(1)"]', "roots[0]: not an http(s) URL"),
        ('name = "a"\nroots = ["nonsense"]', "roots[0]: not an http(s) URL or a host name"),
        ('name = "a"\nroots_file = "none.txt"', "none.txt: no such file"),
        ('name = "a"\nroots = "a.br"', "roots: expected a list"),
        ('name = "a"\nroots = ["a.br"]\ncolour = 1', "unknown key 'colour' (allowed: name, roots,"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\ndepth = 1', "[scope] unknown key 'depth' (allowed: hosts,"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\ndepth_max = -1', "[scope] depth_max must be 0 or more, got -1"),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\ndepth_max = "x"',
            "[scope] depth_max: expected a whole number",
        ),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nvocabularies = ["schema"]', "[scope] vocabularies belongs to keep"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nsyntaxes = ["rdfa"]', "[scope] syntaxes belongs to keep"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nopen_graph = true', "[scope] open_graph belongs to keep"),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nsyntaxes = []',
            "[scope] syntaxes must name at least one of rdfa, microdata, jsonld",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nsyntaxes = ["rdfa", "json-ld"]',
            "[scope] syntaxes[1]: invalid enum value 'json-ld' (allowed: rdfa, microdata, jsonld)",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nvocabularies = ["foaf"]\nopen_graph = true',
            "[scope] open_graph and vocabularies exclude each other",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nsyntaxes = ["jsonld"]\nopen_graph = true',
            "[scope] open_graph: Open Graph is written as RDFa",
        ),
        (
            f'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nvocabularies = {["schema"] * 101}',
            "[scope] vocabularies: 101 vocabularies are more than the 100 allowed",
        ),
        (
            f'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nvocabularies = ["http://a.br/{"x" * 300}#"]',
            "[scope] vocabularies: 'http://a.br/xxx",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[scope]\nkeep = "structured"\nvocabularies = ["nada"]',
            "[scope] vocabularies: 'nada' is neither",
        ),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nhosts = ["a b"]', "[scope] hosts: 'a b' is no pattern"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\ntypes = ["html"]', "[scope] types: 'html' is no MIME type"),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nsize_max = "big"', "[scope] size_max: not a size: 'big'"),
        ('name = "a"\nroots = ["a.br"]\n[politeness]\ndelay = "soon"', "[politeness] delay: not a duration: 'soon'"),
        ('name = "a"\nroots = ["a.br"]\n[politeness]\nrobots = "maybe"', "(allowed: obey, ignore)"),
        ('name = "a"\nroots = ["a.br"]\n[network]\nconnect_to = {"*.test" = "x"}', "[network] connect_to: 'x' is no"),
        (
            'name = "a"\nroots = ["a.br"]\n[revisit]\npolicy = "soon"',
            "[revisit] policy: invalid enum value 'soon' (allowed: "
            "index, psp, mp2, m-wolf, uniform, proportional, rateupdate, never)",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[revisit]\nshare = 0',
            "[revisit] share must be more than 0 and at most 1, got 0",
        ),
        ('name = "a"\nroots = ["a.br"]\n[revisit]\nrate = -5', "[revisit] rate must be 1e-06 or more, got -5"),
        ('name = "a"\nroots = ["a.br"]\n[revisit]\nhorizon = "1s"', "[revisit] horizon must be 60s or more, got 1s"),
        (
            'name = "a"\nroots = ["a.br"]\n[revisit]\noften = 1',
            "[revisit] unknown key 'often' (allowed: policy, rate, share, horizon, interval_min, grace, weigh, change)",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy]\norder = "depth"',
            "[strategy] order: invalid enum value 'depth' (allowed: breadth, backlinks, fifo, lifo, random)",
        ),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy]\nfavour = ["*br"]',
            "[strategy] favour: '*br' is no pattern such as",
        ),
        ('name = "a"\nroots = ["a.br"]\n[strategy]\nfavour = "*.br"', "[strategy] favour: expected a list"),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy]\npenalise = [""]',
            "[strategy] penalise: '' is no pattern such as */login*",
        ),
        ('name = "a"\nroots = ["a.br"]\n[strategy]\ntable_max = 0', "[strategy] table_max must be 1 or more, got 0"),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy]\ntable_max = 10_000_000',
            "[strategy] table_max must be 100000 at most",
        ),
        ('name = "a"\nroots = ["a.br"]\n[strategy]\ncycle = 0', "[strategy] cycle must be 1 or more, got 0"),
        ('name = "a"\nroots = ["a.br"]\n[strategy]\ncycle = 1.5', "[strategy] cycle: expected a whole number"),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy]\nweights = {block = -1}',
            "[strategy] weights.block must be 0 or more, got -1",
        ),
        ('name = "a"\nroots = ["a.br"]\n[strategy]\nweights = {length = nan}', "[strategy] weights.length must be"),
        (
            'name = "a"\nroots = ["a.br"]\n[strategy.weights]\nblocks = 1',
            "[strategy] weights: unknown key 'blocks' (allowed: length, block, favour, penalty)",
        ),
        ('name = "a"\nroots = ["a.br"]\n[scope]\nbeyond = "pt"', '[scope] beyond: expected true or false, got "pt"'),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_line_that_names_the_place(tmp_path, text, told):
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        load_collection(path)
    message = str(refusal.value)
    assert told in message
    assert message.startswith(str(tmp_path))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("pattern", "name", "port", "expected"),
    [
        ("*.br", "a.br", "", True),
        ("*.br", "x.y.z.br", "", True),
        ("*.br", "br", "", False),
        ("*.br", "abr", "", False),
        ("*.br", "a.br.com", "", False),
        ("a.br", "a.br", "", True),
        ("a.br", "a.br", "8080", True),
        ("a.br:8080", "a.br", "8080", True),
        ("a.br:8080", "a.br", "", False),
        ("*.br:8080", "a.br", "8080", True),
        ("*.br:8080", "a.br", "", False),
        ("*.são.br", "www.xn--so-sia.br", "", True),
        ("*", "anything.at.all", "99", True),
        ("A.BR", "a.br", "", True),
    ],
)
def test_host_patterns(pattern, name, port, expected):
    assert HostMatcher([pattern]).matches(name, port) is expected


def test_a_strategy_is_complete_and_survives_the_frontier():
    table = {"order": "breadth", "favour": ["*.br"], "penalise": ["*/login*"], "weights": {"favour": 20}}
    collection = config.collection_from_table({"name": "a", "roots": ["http://a.br/"], "strategy": table}, "test")
    assert (collection.strategy.table_max, collection.strategy.cycle) == (4_000, 100)
    assert collection.strategy.weights == UrlScoreWeights(length=1, block=10, favour=20, penalty=200)
    assert config.decode_collection(config.encode_collection(collection)).strategy == collection.strategy


@pytest.mark.parametrize(
    ("scope", "expected"),
    [({}, False), ({"languages": ["pt"]}, True), ({"languages": ["pt"], "beyond": False}, False)],
)
def test_whoever_names_languages_looks_beyond_the_hosts_unless_told_not_to(scope, expected):
    assert (
        config.collection_from_table({"name": "a", "roots": ["a.br"], "scope": scope}, "test").explores_outside_hosts
        is expected
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9.9.9.9", "9.9.9.9:53"),
        ("127.0.0.1:5353", "127.0.0.1:5353"),
        ("2620:fe::fe", "[2620:fe::fe]:53"),
        ("[2620:fe::fe]", "[2620:fe::fe]:53"),
        ("[::1]:5353", "[::1]:5353"),
        ("dns.quad9.net", None),
        ("9.9.9.9:0", None),
        ("9.9.9.9:99999", None),
        ("9.9.9.9:", None),
        ("", None),
    ],
)
def test_a_name_server_is_an_address_with_or_without_a_port(text, expected):
    assert parse_name_server(text) == expected


PROXIED = """
name = "a"
roots = ["http://a.br/"]
[politeness]
per_ip = false
[network]
allow_private = true
proxy = "http://proxy.example.br:3128"
"""


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("per_ip = false", "", r"add \[politeness\] per_ip = false"),
        ("allow_private = true", "", "confirm that with allow_private = true"),
        ("http://proxy", "http://ana:secret@proxy", "a password does not belong here"),
        ("http://proxy", "ftp://proxy", "is no address such as"),
        (":3128", "", "is no address such as"),
        ("allow_private = true", 'allow_private = true\ndns = ["9.9.9.9"]', "exclude each other"),
        ("allow_private = true", 'allow_private = true\ndns = ["quad9"]', "is no address such as 9.9.9.9"),
    ],
)
def test_a_proxy_is_taken_only_from_those_who_know_what_it_means(tmp_path, before, after, message):
    assert load_collection(written(tmp_path, PROXIED)).network.proxy
    with pytest.raises(ConfigError, match=message) as refusal:
        load_collection(written(tmp_path, PROXIED.replace(before, after)))
    assert "secret" not in str(refusal.value)


def test_all_that_is_wrong_with_a_file_is_told_at_once_each_with_its_place(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'name = "a"\nroots = ["not a url"]\ncolour = 1\n[scope]\ndepth_max = "many"\nlanguages = ["portuguese"]\n'
        '[notify]\nstalled = 0\n[network]\nca_file = "none.pem"\n'
    )
    with pytest.raises(ConfigError) as told:
        load_collection(path)
    lines = str(told.value).splitlines()
    assert [line.removeprefix(f"{path}: ").split(":")[0] for line in lines] == [
        "unknown key 'colour' (allowed", "[scope] depth_max", "[notify] stalled must be 10s or more, got 0s",
        "[network] ca_file", "roots[0]", "[scope] languages",
    ]  # fmt: skip
    assert all(line.startswith(f"{path}: ") for line in lines)
    assert '[scope] depth_max: expected a whole number such as 10, got "many"' in lines[1]


def test_a_password_in_the_wrong_place_is_in_no_complaint(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text('name = "a"\nroots = ["a.br"]\n[notify]\nwebhook = ["http://a.br/secret"]\n')
    with pytest.raises(ConfigError) as told:
        load_collection(path)
    assert "[notify] webhook: expected a text in quotation marks, got array" in str(told.value)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize("contact", [
    "https://example.br/bot", "crawl@example.br", "Universidade de São Paulo <bot@usp.br>", "www.example.br/bot",
    "see http://example.br/.",
])  # fmt: skip
def test_whoever_can_be_reached_is_a_contact(contact):
    assert (
        config.collection_from_table({"name": "a", "politeness": {"contact": contact}}, "test").politeness.contact
        == contact
    )


def test_what_an_earlier_version_accepted_is_still_read_from_the_frontier():
    kept = config.encode_collection(
        replace(Collection(name="a"), politeness=PolitenessConfig(contact="abc", email="me"))
    )
    assert config.decode_collection(kept).politeness.contact == "abc"
