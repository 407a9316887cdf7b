"""Queries on real text: which page comes first, how many are found, and how a text goes on.

The pages are sections of the Debian Administrator's Handbook, in Portuguese and English: see
debian_handbook/README.md.
"""

import json
import re
from pathlib import Path

import pytest

from tarrafa.index import follower as index
from tarrafa.index.text_analysis import analyze, is_function_word, readings
from tarrafa.search.query_builder import FUNCTION_WORD_SHARE
from tarrafa.search.request import SearchRequest, Sort
from tests.graph.archived_web import a_record, new_data, write
from tests.search.sample_pages import Asker

SECTIONS = Path(__file__).parent / "debian_handbook" / "sections.jsonl"


@pytest.fixture(scope="module")
def sections():
    return [json.loads(line) for line in SECTIONS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def ask(tmp_path_factory, sections):
    data = new_data(tmp_path_factory.mktemp("handbook") / "data")
    records = [a_record(_url(one), title=one["title"], text=one["text"], language=one["language"]) for one in sections]
    write(data, records)
    index.catch_up(data)
    return Asker(data)


def _url(section: dict[str, str]) -> str:
    return f"http://{section['language']}.test/{section['name']}"


FIRST = {
    # plain words, Portuguese and English
    "impressora": "pt/config-printing",
    "printer": "en/config-printing",
    "criar contas de usuário": "pt/creating-accounts",
    "creating accounts": "en/creating-accounts",
    "agendar tarefas cron": "pt/task-scheduling-cron-atd",
    "virtualização": "pt/virtualization",
    "compilar o núcleo": "pt/kernel-compilation",
    "compiling a kernel": "en/kernel-compilation",
    "servidor web": "pt/http-web-server",
    "firewall lang:pt": "pt/firewall-packet-filtering",
    "packet filtering": "en/firewall-packet-filtering",
    # all words before some
    "rede privada virtual": "pt/virtual-private-network",
    "compartilhamento windows": "pt/windows-file-server-with-samba",
    "servidor de arquivos nfs": "pt/nfs-file-server",
    "ftp file server": "en/ftp-file-server",
    "máquina comprometida": "pt/dealing-with-compromised-machine",
    "domain name servers": "en/domain-name-servers",
    "mantenedor de pacotes": "pt/becoming-package-maintainer",
    "pacote fonte": "pt/source-package-structure",
    # function words do not decide
    "o que é o selinux": "pt/selinux",
    "how to migrate": "en/how-to-migrate",
    "para quem é este livro": "pt/who-is-this-book-for",
    "como é a configuração da impressora": "pt/config-printing",
    "what is the ldap directory": "en/ldap-directory",
    # words with signs
    "apt-cache lang:pt": "pt/apt-cache",
    "apt-file lang:pt": "pt/apt-file",
    "apt-get": "pt/apt-get",
    "x.509": "pt/x509-cert",
    "http/ftp lang:pt": "pt/http-ftp-proxy",
    "gnu/linux": "pt/why-gnu-linux",
    "cd-rom": "pt/knoppix",
    "9.11.3": "pt/hotplug",
    "198.51.100.19": "pt/rtc-services",
    "apt cache": "en/apt-cache",
    # the form that is typed
    "cota": "pt/quotas",
    "cotas": "pt/quotas",
    "certificados": "pt/x509-cert",
    "atualizações automáticas": "pt/automatic-upgrades",
    # accents need not be typed
    "sincronizacao de tempo": "pt/config-misc",
    "roteamento dinamico": "pt/dynamic-routing",
    "diagnostico de rede": "pt/network-diagnosis-tools",
    # phrases and signs
    '"linux mint" lang:pt': "pt/linux-mint",
    '"primeiro pacote"': "pt/building-first-package",
    "kernel -núcleo -lang:pt": "en/kernel-compilation",
    "+dpkg manipulating": "en/manipulating-packages-with-dpkg",
    "intitle:backup lang:en": "en/backup",
    # typing errors
    "imprssora": "pt/config-printing",
    "virtualizasao": "pt/virtualization",
}


@pytest.mark.parametrize("query", FIRST)
def test_the_page_that_is_looked_for_comes_first(ask, query):
    hits = ask.search(query).hits
    language, _, name = FIRST[query].partition("/")
    assert hits[0].url == f"http://{language}.test/{name}"


SIGNED = ["dpkg-reconfigure", "64-bit", "www-data", "GNU/Linux", "X.509", "9.11.3", "192.168.0.1", ".deb",
          "doesn't", "SSL/TLS", "CD-ROM", "sub-rede", "2.9.4-2"]  # fmt: skip


@pytest.mark.parametrize("word", SIGNED)
def test_a_word_with_signs_finds_the_pages_that_write_it_so_before_all_others(ask, sections, word):
    written = re.compile(rf"(?<!\w)(?<!\w[.,]){re.escape(word)}(?![.,]?\w)", re.IGNORECASE).search
    those = {_url(one) for one in sections if written(one["title"]) or written(one["text"])}
    found = [hit.url for hit in ask.search(word, n=50, crowded=True).hits]
    assert those
    assert set(found[: len(those)]) == those


SEVERAL = [
    "servidor arquivos",
    "rede de pacotes",
    "the kernel and the hardware",
    "impressora cups",
    "atualização de segurança",
]


@pytest.mark.parametrize("query", SEVERAL)
def test_the_total_counts_the_pages_with_all_words_and_these_come_first(ask, sections, query):
    spoken = [word for word in query.split() if not is_function_word(word)]
    whole = {_url(one) for one in sections if all(_holds(one, word) for word in spoken)}
    some = {_url(one) for one in sections if any(_holds(one, word) for word in spoken)}
    result = ask.search(query, copies=True, crowded=True)
    assert (result.total, result.others) == (len(whole), len(some) - len(whole))
    assert not result.instead
    assert result.hits[0].url in whole
    by_date = [hit.url for offset in range(0, len(some), 20)
               for hit in ask.search(query, 20, offset, sort=Sort.DATE, copies=True, crowded=True).hits]  # fmt: skip
    assert set(by_date[: len(whole)]) == whole
    assert sorted(by_date) == sorted(some), "page after page, each once"


def _holds(section: dict[str, str], word: str) -> bool:
    held = analyze(f"{section['title']} {section['text']}", section["language"]).split()
    return any(set(reading) & set(held) for reading in readings(word))


def test_where_no_page_has_all_words_some_are_found_and_that_is_said(ask):
    result = ask.search("impressora selinux anacron")
    assert (result.instead, result.others) == ("some", 0)
    assert result.total > 3
    unknown = ask.search("impressora xyzzyx")
    assert unknown.instead == "some"
    assert unknown.hits[0].url == "http://pt.test/config-printing"


def test_a_page_that_writes_a_word_as_typed_scores_more_than_one_with_another_form(tmp_path):
    data = new_data(tmp_path / "data")
    texts = {"a": "a rede", "b": "as redes", "c": "o avô", "d": "a avó"}
    write(data, [a_record(f"http://{name}.test/", text=text) for name, text in texts.items()])
    index.catch_up(data)
    ask = Asker(data).search
    for query, name in {"rede": "a", "redes": "b", "avô": "c", "avó": "d", "REDES": "b"}.items():
        hits = ask(query).hits
        assert hits[0].url == f"http://{name}.test/", query
        assert len(hits) == 2, query
    first, second = ask("avo").hits
    assert first.score == second.score, "without an accent, either may be meant"


def test_a_form_that_every_page_with_the_word_has_counts_too(tmp_path):
    """Half of the rarity of a word: many repetitions of a frequent word are not worth more than a rare one."""
    data = new_data(tmp_path / "data")
    write(data, [a_record("http://a.test/", text="a rede azul"), a_record("http://b.test/", text="o barco")])
    index.catch_up(data)
    parts = Asker(data).searcher.explain_score(SearchRequest("rede"), "http://a.test/")
    assert [part.kind for part in parts if part.kind != "links"] == ["text", "form"]


def scored(ask: Asker, query: str, url: str) -> dict[tuple[str, str], float]:
    return {(part.kind, part.what): part.value for part in ask.searcher.explain_score(SearchRequest(query), url)}


def test_words_with_function_words_between_them_are_neighbours_at_that_distance(tmp_path):
    data = new_data(tmp_path / "data")
    texts = {
        "near": "as reservas novas do petróleo",
        "joined": "as reservas petróleo e gás",
        "far": "as reservas novas e mui antigas do petróleo",
        "turned": "o petróleo reservas",
    }
    write(data, [a_record(f"http://{name}.test/", text=text) for name, text in texts.items()])
    index.catch_up(data)
    ask, pair = Asker(data), ("pair", "reservas petróleo")
    gains = {name: pair in scored(ask, "reservas de petróleo", f"http://{name}.test/") for name in texts}
    assert gains == {"near": False, "joined": True, "far": False, "turned": False}
    assert pair in scored(ask, "reservas de um petróleo", "http://near.test/")
    assert pair not in scored(ask, "reservas barco petróleo", "http://joined.test/"), "another word stands between"
    assert not [kind for kind, _ in scored(ask, "de reservas", "http://joined.test/") if kind == "pair"]


def test_function_words_add_a_share_of_their_score_and_all_of_it_where_there_is_no_other_word(tmp_path):
    data = new_data(tmp_path / "data")
    texts = ("rede de pesca", "um barco", "o mar", "as ilhas")
    write(data, [a_record(f"http://h{n}.test/", text=text) for n, text in enumerate(texts)])
    index.catch_up(data)
    ask, word = Asker(data), ("text", "de")
    whole = scored(ask, "+rede +de", "http://h0.test/")[word]
    assert scored(ask, "de", "http://h0.test/")[word] == pytest.approx(whole)
    assert scored(ask, "rede de", "http://h0.test/")[word] == pytest.approx(FUNCTION_WORD_SHARE * whole)
    [hit] = ask.search("rede de").hits
    parts = scored(ask, "rede de", "http://h0.test/")
    factor = parts.pop(("links", ""))
    assert hit.score == pytest.approx(sum(parts.values()) * factor, rel=1e-3)


NEXT = {
    "linux m": "linux mint",
    "kali l": "kali linux",
    "servidor de a": "servidor de arquivos",
    "banco de d": "banco de dados",
    "domain n": "domain name",
    "rede p": "rede privada",
    "sistema de a": "sistema de arquivos",
    "file s": "file server",
    "virtualizaç": "virtualização",
    "impres": "impressora",
}


@pytest.mark.parametrize("text", NEXT)
def test_the_last_word_is_completed_in_the_light_of_those_before(ask, text):
    assert ask.searcher.suggest(text)[0] == NEXT[text]


def test_a_first_word_is_suggested_with_the_word_that_follows_it(ask):
    assert "knoppix" in ask.searcher.suggest("knop")
    assert "arquivos" in ask.searcher.suggest("arq")[0]
