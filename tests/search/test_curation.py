"""The rules of those who run the engine: what is written counts, what is wrong is said, and nothing in between."""

import logging
import shutil
import threading
import tomllib
from pathlib import Path

import pytest

from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import curation
from tarrafa.search.curation import NO_RULES, Curation, CurationRules, rules_from_table
from tests.journey.crawl_journey import tarrafa

GOOD = """
synonyms = [["carro", "automóvel", "auto"], ["bh", "belo horizonte"], ["auto", "peça teatral"]]
blocked = ["Spam.example", "xn--so-sia.br"]
lowered = ["farm.example", {site = "ads.farm.example", factor = 0.1}]

[[pin]]
query = "Vestibular  2027?"
url = "HTTPS://www.ufmg.br:443/vestibular#prova"

[[pin]]
query = "vestibular 2027"
url = "https://www.usp.br/"
"""


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    found = DataDirectory(tmp_path / "data")
    found.create()
    return found


def write(data: DataDirectory, text: str) -> Path:
    """As an editor does it: another file takes the place. The clock of a file system may be slower than a test."""
    path = curation.path_of(data)
    new = path.with_name("search.new")
    new.write_text(text)
    new.replace(path)
    return path


def good() -> CurationRules:
    return rules_from_table(tomllib.loads(GOOD), "search.toml")


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("carro", ("automóvel", "auto")),
        ("carros", ("automóvel", "auto")),
        ("automoveis", ("carro", "auto")),
        ("auto", ("carro", "automóvel", "peça teatral")),
        ("bh", ("belo horizonte",)),
        ("belo horizonte", ("bh",)),
        ("belo", ()),
        ("rede", ()),
        ("", ()),
    ],
)
def test_a_word_has_the_synonyms_of_its_groups_whatever_its_accents_and_plural(word, others):
    assert good().synonyms(word) == others


def test_a_word_has_not_more_synonyms_than_a_query_can_bear():
    many = tuple(f"palavra{number}" for number in range(45))
    assert len(CurationRules(groups=(many,)).synonyms("palavra0")) == curation.SYNONYMS_MAX


@pytest.mark.parametrize(
    ("query", "pinned"),
    [
        ("vestibular 2027", True),
        ("  VESTIBULAR   2027 ", True),
        ("véstibular 2027!", True),
        ('"vestibular 2027"', True),
        ("vestibular", False),
        ("-vestibular 2027", False),
        ("vestibular 2027 usp", False),
    ],
)
def test_pages_are_pinned_for_exactly_that_query_in_the_files_order(query, pinned):
    urls = ["https://www.ufmg.br/vestibular", "https://www.usp.br/"] if pinned else []
    assert good().pinned_urls(query) == urls


@pytest.mark.parametrize(
    ("host", "factor", "blocked"),
    [
        ("farm.example", 0.3, False),
        ("www.farm.example", 0.3, False),
        ("a.ads.farm.example", 0.1, False),
        ("otherfarm.example", 1.0, False),
        ("example", 1.0, False),
        ("spam.example", 1.0, True),
        ("a.b.spam.example.", 1.0, True),
        ("notspam.example", 1.0, False),
        ("www.xn--so-sia.br", 1.0, True),
        ("127.0.0.1", 1.0, False),
    ],
)
def test_a_site_is_its_domain_and_everything_below_it(host, factor, blocked):
    found = good()
    assert (found.factor(host), found.blocks(host)) == (factor, blocked)
    assert found.blocked == {"spam.example", "xn--so-sia.br"}


def test_an_address_is_a_site_and_stands_below_no_other():
    found = rules_from_table({"blocked": ["127.0.0.1", "[::1]", "1"]}, "x")
    assert found.blocks("127.0.0.1")
    assert found.blocks("[::1]")
    assert not found.blocks("10.0.0.1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("synonyms = [", "not valid TOML"),
        ("synonims = []", "unknown key 'synonims' (allowed: synonyms, blocked, lowered, [[pin]])"),
        ('synonyms = "carro"', "synonyms: expected a list, got text"),
        ('synonyms = ["carro"]', "synonyms[0]: expected a list, got text"),
        ('synonyms = [["carro", 1]]', "synonyms[0][1]: expected text, got a whole number"),
        ('synonyms = [["a", "b"], ["carro"]]', "synonyms[1]: a group is 2 to 50 words that mean the same, got 1"),
        ('synonyms = [["carro", "--"]]', "synonyms[0]: '--' must be a word, or a phrase of at most 8 words"),
        ("blocked = [1]", "blocked[0]: expected text, got a whole number"),
        ('blocked = ["a.br", "*.b.br"]', "blocked[1]: '*.b.br' is no site such as ufmg.br (everything below"),
        ('blocked = ["https://a.br/page"]', "blocked[0]: 'https://a.br/page' is no site such as ufmg.br"),
        ('blocked = ["a.br:8080"]', "blocked[0]: 'a.br:8080' is no site such as ufmg.br"),
        ('blocked = ["1.2.3.4.5.6.7.8.9.10.11.12.br"]', "is no site such as ufmg.br"),
        ("lowered = [1]", "lowered[0]: expected a site or {site = …, factor = …}, got a whole number"),
        ('lowered = [{site = "a.br", faktor = 1}]', "lowered[0]: unknown key 'faktor' (allowed: site, factor)"),
        ("lowered = [{factor = 0.5}]", "lowered[0]: site is missing"),
        ('lowered = [{site = "a.br", factor = "x"}]', "lowered[0].factor: expected a number, got text"),
        ('lowered = [{site = "a.br", factor = 0}]', "factor must be more than 0 and less than 1, got 0; to hide"),
        ('lowered = [{site = "a.br", factor = nan}]', "lowered[0]: factor must be more than 0 and less than 1"),
        ('pin = "x"', "pin: write each as a table of its own, [[pin]] with query and url"),
        ('[pin]\nquery = "a"\nurl = "http://a.br/"', "pin: write each as a table of its own"),
        ('[[pin]]\nquery = "a"', "[[pin]] number 1: url is missing"),
        ('[[pin]]\nquery = "a"\nurl = 1', "[[pin]] number 1: url: expected text, got a whole number"),
        ('[[pin]]\nquery = "a"\nurl = "ftp://a.br/"', "[[pin]] number 1: url: 'ftp://a.br/' is no http(s) URL"),
        ('[[pin]]\nquery = " ?"\nurl = "http://a.br/"', "[[pin]] number 1: query must be 1 to 200 characters"),
        (
            '[[pin]]\nquery = "a"\nurl = "http://a.br/"\nblocked = []',
            "[[pin]] number 1: unknown key 'blocked' (allowed: query, url); blocked must stand above the first [[pin]]",
        ),
        (
            'blocked = ["a.br"]\n[[pin]]\nquery = "a"\nurl = "http://www.a.br/x"',
            "[[pin]] number 1: url: http://www.a.br/x is on a site that is blocked; one of the two must go",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_what_is_allowed(data, text, told):
    path = write(data, text)
    with pytest.raises(ConfigError) as error:
        curation.read_rules(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (curation.FILE_BYTES_MAX + 1), b"a = " + b"[" * 100_000])
def test_a_file_that_is_no_text_or_without_end_is_refused_in_one_line(data, content):
    curation.path_of(data).write_bytes(content)
    with pytest.raises(ConfigError) as error:
        curation.read_rules(curation.path_of(data))
    assert "\n" not in str(error.value)


def test_a_change_counts_from_the_next_question_on(data):
    found = Curation(data)
    assert found.rules() is NO_RULES
    path = write(data, 'blocked = ["a.br"]')
    assert found.rules().blocked == {"a.br"}
    assert found.rules() is found.rules()
    write(data, 'blocked = ["b.br"]')
    assert found.rules().blocked == {"b.br"}
    path.unlink()
    assert found.rules() == NO_RULES


def test_a_broken_file_keeps_the_last_good_rules_and_is_said_once(data, caplog):
    found = Curation(data)
    write(data, 'blocked = ["a.br"]')
    assert found.rules().blocked == {"a.br"}
    assert found.problem == ""
    write(data, 'blokced = ["b.br"]')
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert found.rules().blocked == {"a.br"}
    assert [record.message for record in caplog.records] == [
        f"{found.problem}; the last valid rules apply until the file is corrected"
    ]
    assert "unknown key 'blokced'" in found.problem
    write(data, 'blocked = ["b.br"]')
    assert found.rules().blocked == {"b.br"}
    assert found.problem == ""


def test_who_starts_while_the_file_is_broken_keeps_to_the_last_good_rules_too(data):
    write(data, 'blocked = ["a.br"]')
    assert Curation(data).rules().blocked == {"a.br"}
    write(data, "broken")
    found = Curation(data)
    assert found.rules().blocked == {"a.br"}
    assert "not valid TOML" in found.problem
    curation.path_of(data).unlink()  # on purpose: then there are none
    assert Curation(data).rules() == NO_RULES
    write(data, "broken")
    assert Curation(data).rules() == NO_RULES


def test_where_nothing_can_be_remembered_the_rules_hold_all_the_same(data):
    write(data, 'blocked = ["a.br"]')
    shutil.rmtree(data.run)
    assert Curation(data).rules().blocked == {"a.br"}


def test_many_threads_see_one_set_of_rules_or_the_next(data):
    found, wrong = Curation(data), []
    write(data, 'blocked = ["a.br", "b.br"]')

    def ask() -> None:
        for _ in range(300):
            if found.rules().blocked not in ({"a.br", "b.br"}, {"c.br", "d.br"}):
                wrong.append(found.rules())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        write(data, 'blocked = ["c.br", "d.br"]' if number % 2 else 'blocked = ["a.br", "b.br"]')
    for thread in threads:
        thread.join()
    assert not wrong


def test_curate_check_tells_what_holds_or_what_is_wrong(data):
    write(data, GOOD)
    done = tarrafa("curation", "check", "--data", data.root)
    told = "3 groups of synonyms, 2 pinned pages, 2 lowered sites, 2 blocked sites"
    assert (done.returncode, done.stdout.strip()) == (0, f"{data.root}/search.toml: {told}")
    path = write(data, "blocked = [1]")
    done = tarrafa("curation", "check", "--data", data.root)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {path}: blocked[0]: expected text, got a whole number\n"
