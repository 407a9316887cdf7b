"""The search page: filters, orders, switches, two languages, formats; every link keeps what was chosen."""

import asyncio
import csv
import io
import json
import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit
from xml.etree import ElementTree

import msgspec
import pytest
from starlette.requests import Request

from tarrafa.index import follower as index
from tarrafa.model import Hit, SearchResult, ShardReport
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.server.page_responses import PageResponses
from tarrafa.server.search.routes import SearchRoutes
from tarrafa.server.search.search_pool import SearchPool
from tests.graph.archived_web import a_record, new_data, write
from tests.server.conftest import RunningSite, links

DAY = 86_400.0
NOW = 1_790_000_000.0  # 2026-09-21
WORD = "caravela"
PDF = "http://docs.test/servi%C3%A7os/relatorio.pdf"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """Thirty pages of a word: three languages, one document, some of one host, of all ages."""
    data = new_data(tmp_path_factory.mktemp("choosing") / "data")
    records = []
    for n in range(24):
        language = ("pt", "en", "es")[n % 3]
        url = f"http://{'muitas' if n < 6 else f's{n}'}.test/p{n}"
        text = f"{WORD} {' '.join(f'p{n}w{i}' for i in range(n + 3))}"
        records.append(a_record(url, title=f"Página {n}", text=text, language=language, at=NOW - n * 20 * DAY))
    document = a_record(PDF, title="Um relatório", text=f"{WORD} em papel", at=NOW - 3 * DAY)
    outcome = msgspec.structs.replace(document.outcome, type="application/pdf")
    write(data, [*records, msgspec.structs.replace(document, outcome=outcome)])
    index.catch_up(data)
    return data


@pytest.fixture(scope="module")
def site(data: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(data) as running:
        yield running


def found(site: RunningSite, parameters: str) -> list[str]:
    return [hit["url"] for hit in json.loads(site.get(f"/search.json?q={WORD}&n=50&{parameters}")[1])["hits"]]


def test_filters_leave_pages_out(site):
    assert len(found(site, "")) == 25
    assert len(found(site, "lang=en")) == 8
    assert len(found(site, "after=2026-09-01")) == 3
    assert len(found(site, "before=2026-01")) == 10
    assert found(site, "after=2026-09-18&before=2026-09-19") == [PDF]


def test_the_languages_of_the_pages_are_told_the_most_frequent_first(data):
    told = Searcher.open(data).languages()
    assert list(told.items()) == [("pt", 9), ("en", 8), ("es", 8)]


def test_orders_put_first_what_was_asked_for(site):
    newest = found(site, "sort=date")
    assert newest[:3] == ["http://muitas.test/p0", PDF, "http://muitas.test/p1"]
    assert sorted(found(site, "sort=links")) == sorted(newest)


def test_the_menus_offer_the_languages_that_are_there(site):
    text = site.get(f"/?q={WORD}&lang=es")[1]
    offered = re.findall(r'<li><a href="[^"]*"( aria-current="true")?>([^<]*)</a></li>', text.split("</details>")[0])
    assert [label for _, label in offered] == ["Any language", "English", "Portuguese", "Spanish"]
    assert [label for chosen, label in offered if chosen] == ["Spanish"]
    assert "8 pages in" in text
    assert "Clear filters" in text
    assert "Clear filters" not in site.get(f"/?q={WORD}")[1]


CHOSEN = {
    "all": "1", "natural": "1", "recent": "1", "sort": "date", "lang": "pt", "after": "2020-01-01", "copies": "1",
    "crowded": "1", "collection": "small", "hl": "pt",
}  # fmt: skip


def test_every_link_and_form_of_the_page_keeps_what_was_chosen(site):
    _, text = site.get(f"/?q={WORD}&{'&'.join(f'{name}={value}' for name, value in CHOSEN.items())}")
    for link in links(text):
        parts = urlsplit(link)
        if parts.path != "/" or parts.netloc or "q=" not in parts.query:
            continue
        kept = {name: values[0] for name, values in parse_qs(parts.query).items()}
        changed = {name for name, value in CHOSEN.items() if kept.get(name) != value}
        assert len(changed) <= 4, f"{link} drops {changed}"
        assert changed <= {"lang", "after", "collection"} or len(changed) == 1, f"{link} drops {changed}"
    search, dates = re.findall(r"<form.*?</form>", text, re.DOTALL)
    switched = set(re.findall(r'name="(\w+)" value="1" form="search" checked', text))
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', search))
    assert hidden | dict.fromkeys(switched, "1") == CHOSEN
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', dates))
    assert hidden == {name: value for name, value in CHOSEN.items() if name != "after"} | {"q": WORD}


def test_pages_of_results_keep_what_was_chosen(site):
    _, text = site.get(f"/?q={WORD}&lang=pt&sort=date&hl=en")
    assert f"/?q={WORD}&sort=date&lang=pt&hl=en" in links(text)
    _, text = site.get(f"/?q={WORD}&sort=date&page=2")
    assert f"/?q={WORD}&sort=date&page=3" in links(text)


def test_a_document_wears_its_type_and_its_address_can_be_read(site):
    _, text = site.get(f"/?q={WORD}&after=2026-09-18&before=2026-09-19")
    assert '<span class="badge">PDF</span>' in text
    assert "<b>docs.test</b>/serviços/relatorio.pdf" in text
    assert f'href="{PDF}"' in text


def test_two_of_one_site_lead_to_more_of_it(site):
    _, text = site.get(f"/?q={WORD}&lang=pt")
    assert text.count("More from muitas.test") == 1
    assert f"/?q=site%3Amuitas.test+{WORD}&lang=pt" in links(text)
    _, text = site.get(f"/?q=site:muitas.test+{WORD}")
    assert "6 pages in" in text
    assert "More from" not in text


def test_nothing_found_leads_on(site):
    _, text = site.get("/?q=nada+disso&all=1&lang=en")
    assert "/?q=nada+disso&lang=en" in links(text)
    assert "/?q=nada+disso&all=1" in links(text)


def test_the_interface_speaks_the_readers_language_and_remembers_the_choice(site):
    _, english = site.get(f"/?q={WORD}")
    assert '<html lang="en">' in english
    assert f"/?q={WORD}&hl=pt" in links(english)
    response, portuguese = site.get(f"/?q={WORD}&hl=pt")
    assert '<html lang="pt">' in portuguese
    assert re.search(r"25 páginas em 0,\d{3} s", portuguese)
    cookie = response.getheader("set-cookie") or ""
    assert cookie.startswith("hl=pt;")
    assert {"httponly", "samesite=lax", "path=/"} <= set(cookie.lower().split("; "))
    assert '<html lang="pt">' in site.get("/", headers={"Cookie": "hl=pt"})[1]
    assert '<html lang="pt">' in site.get("/", headers={"Accept-Language": "pt-BR,en;q=0.5"})[1]
    response, _ = site.get("/", headers={"Accept-Language": "pt"})
    assert response.getheader("set-cookie") is None, "who chose nothing gets no cookie"
    assert "Accept-Language" in (response.getheader("vary") or "")
    assert '<html lang="en">' in site.get("/?hl=xx", headers={"Cookie": "hl=%22%3E"})[1]


def test_what_is_wrong_is_said_in_the_readers_language_and_to_programs_in_english(site):
    assert "Só há o que deixar de fora" in site.get("/?q=-x&hl=pt")[1]
    assert "Não há nada neste endereço." in site.get("/nada?hl=pt")[1]
    response, text = site.get("/search.json?q=-x&hl=pt")
    assert "Only things to leave out" in json.loads(text)["error"]
    response, text = site.get("/search.rss?q=-x")
    assert (response.status, text) == (400, "Only things to leave out: add at least one word to look for.\n")
    assert (response.getheader("content-type") or "").startswith("text/plain")


@pytest.mark.parametrize("wrong", ["sort=best", "time=hour", "lang=%3F", "after=ontem", "before=2026-99"])
@pytest.mark.parametrize("path", ["/", "/search.json", "/search.csv", "/search.rss", "/search.atom"])
def test_a_choice_that_cannot_be_meant_is_400(site, path, wrong):
    response, text = site.get(f"{path}?q={WORD}&{wrong}")
    assert response.status == 400
    assert "must be" in text or "needs a" in text


@pytest.mark.parametrize("path", ["/search.json", "/search.csv", "/search.rss", "/search.atom"])
def test_every_format_holds_the_same_hits_and_the_same_limit(site, path):
    response, text = site.get(f"{path}?q={WORD}&sort=date&n=4&offset=2")
    assert response.status == 200
    if path.endswith("json"):
        urls = [hit["url"] for hit in json.loads(text)["hits"]]
    elif path.endswith("csv"):
        urls = [row["url"] for row in csv.DictReader(io.StringIO(text))]
    else:
        root = ElementTree.fromstring(text)
        urls = [guid.text or "" for guid in root.iter("guid")]
        entry = "{http://www.w3.org/2005/Atom}entry"
        urls += [child.findtext("{http://www.w3.org/2005/Atom}id") or "" for child in root.iter(entry)]
    assert urls == found(site, "sort=date")[2:6]
    response, text = site.get(f"{path}?q={WORD}&n=100&offset=950")
    assert (response.status, "Only the first 1,000 results" in text) == (400, True)


def test_feeds_know_their_own_address_and_the_page_knows_them(site):
    root = ElementTree.fromstring(site.get(f"/search.rss?q={WORD}&lang=pt")[1])
    own = root.find("channel/{http://www.w3.org/2005/Atom}link")
    assert own is not None
    assert own.get("href") == f"{site.address}search.rss?q={WORD}&lang=pt"
    assert root.findtext("channel/link") == f"{site.address}?q={WORD}&lang=pt"
    _, text = site.get(f"/?q={WORD}&lang=pt")
    assert f"/search.rss?q={WORD}&sort=date&lang=pt" in links(text)
    assert f"/search.csv?q={WORD}&lang=pt" in links(text)
    assert "/opensearch.xml" in links(text)


@pytest.mark.parametrize(
    "host",
    ["evil.test", "evil.test:81", "192.0.2.1", "evil.test/<x>", 'a"b', "x" * 300, "[::g", "[::::]", "localhost]"],
)
def test_a_host_that_is_not_this_machine_is_not_repeated(site, host):
    for path in ("/opensearch.xml", f"/search.rss?q={WORD}", f"/search.atom?q={WORD}"):
        _, text = site.get(path, headers={"Host": host})
        assert f"{site.address}?q=" in text, path
        assert host not in text, path
    _, text = site.get("/sparql", headers={"Host": host, "Accept": "text/turtle"})
    assert f"{site.address}sparql" in text
    for path in ("/help", "/help/", "/status"):
        assert site.get(path, headers={"Host": host})[0].status < 500, path


@pytest.mark.parametrize("host", ["localhost:81", "127.0.0.1:81", "[::1]:81"])
def test_a_host_that_is_this_machine_is_repeated(site, host):
    """A tunnel or a container may listen on another port."""
    _, text = site.get("/opensearch.xml", headers={"Host": host})
    assert f"http://{host}/?q={{searchTerms}}" in text


def test_a_redirect_names_no_host(site):
    response, _ = site.get("/help/?hl=pt", headers={"Host": "evil.test"})
    assert response.headers["location"] == "/help?hl=pt"


@pytest.mark.parametrize("path", ["//evil.test/x", "/%5Cevil.test/x", "///evil.test", "/%2F/evil.test"])
def test_no_path_leads_to_another_host(site, path):
    response, text = site.get(path)
    assert response.status == 404
    assert not [link for link in links(text) if re.match(r"[/\\]{2}|\w+:", link)]


def test_help_and_the_first_page_keep_the_language(site):
    _, text = site.get("/help?hl=pt")
    assert "Como buscar" in text
    assert "/?hl=pt" in links(text)
    assert any(link.startswith("/?q=%22da+biblioteca%22") for link in links(text))


# -- what the search may tell, drawn ---------------------------------------------------------------------------------


class FixedSearcher(Searcher):
    """Tells what it is told to tell."""

    def __init__(self, result: SearchResult) -> None:
        super().__init__([])
        self._result = result

    def languages(self) -> dict[str, int]:
        return {"pt": 1}

    def search(self, question: SearchRequest) -> SearchResult:
        question.check()
        return self._result


HOSTILE = "<script>alert('x')</script>\"><img src=x>{{7*7}}%s{0}"


def drawn(data: DataDirectory, result: SearchResult, query: str = f"q={WORD}") -> str:
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": query.encode(), "headers": []}
    searcher = FixedSearcher(result)
    pool = SearchPool(data, searcher, 0)
    pages = SearchRoutes(searcher, pool, PageResponses(data, None), lambda: None, None, lambda: NOW)
    return bytes(asyncio.run(pages.search(Request(scope))).body).decode()


def a_result(total: int = 1, **told: object) -> SearchResult:
    hit = Hit("http://a.test/", "Título", "texto", 1.0, 0, "2026-09-22T21:13:20Z", "pt", pinned=True)
    return msgspec.structs.replace(SearchResult(WORD, total, 0.1, [hit] * min(total, 1), None, []), **told)


def test_what_the_search_did_beyond_the_words_is_said(data):
    away = [ShardReport("norte"), ShardReport("sul", "no answer within 1 s")]
    told = a_result(suggestion="caravelas", ignored=["de", "a"], expanded=["navio"], shards=away)
    text = drawn(data, told, f"q={WORD}&expand=1")
    assert f'Did you mean <a href="/?q={WORD}s&amp;expand=1">caravelas</a>?' in text
    assert "Not looked for, because most pages hold them: de, a." in text
    assert "Also looked for: navio." in text
    assert "Without the pages of sul: no answer within 1 s." in text
    assert "norte" not in text
    assert "Recommended" in text


def test_what_is_shown_instead_of_what_was_asked_is_said(data):
    text = drawn(data, a_result(suggestion="caravelas", expanded=["caravelas"], instead="spelling"))
    assert f'No page was found for “{WORD}”. These are for <a href="/?q=caravelas">caravelas</a>.' in text
    assert "Also looked for" not in text
    assert "No page holds all of the words" in drawn(data, a_result(instead="some"))
    assert "Also looked for: navio." in drawn(data, a_result(expanded=["navio"]))


def test_similar_pages_are_results_like_any_other(site):
    _, text = site.get(f"/?q={WORD}&lang=pt")
    link = next(link for link in links(text) if "related=" in link)
    assert "lang=pt" in link
    assert "q=" not in link
    response, text = site.get(link)
    assert (response.status, "Pages like “http" in text) == (200, True)
    response, text = site.get("/?related=http://nowhere.test/")
    assert (response.status, "not indexed" in text) == (400, True)
    assert json.loads(site.get("/search.json?related=http://muitas.test/p0&n=3")[1])["query"] == ""
    assert site.get("/search.rss?related=http://muitas.test/p0")[0].status == 200


def test_suggestions_come_as_browsers_want_them(site):
    response, text = site.get("/suggest?q=cara")
    assert response.getheader("content-type") == "application/x-suggestions+json"
    assert json.loads(text) == ["cara", [WORD]]
    for odd in ("", "%00", "%22%3Cscript%3E", "x" * 5000, "site:", "-"):
        response, text = site.get(f"/suggest?q={odd}")
        assert (response.status, json.loads(text)[1]) == (200, [])
    assert json.loads(site.get("/suggest")[1]) == ["", []]


def test_whatever_the_search_tells_is_escaped(data):
    hit = Hit(HOSTILE, HOSTILE, HOSTILE, 1.0, 0, HOSTILE, HOSTILE, 2, f"a/{HOSTILE}"[:9], HOSTILE)
    told = a_result(2, hits=[hit, hit], suggestion=HOSTILE, ignored=[HOSTILE], expanded=[HOSTILE],
                    shards=[ShardReport(HOSTILE, HOSTILE)])  # fmt: skip
    for query in (f"q={WORD}", f"q={WORD}&like=%3Cscript%3E&collection=%3Cscript%3E&lang=%3Cscript%3E&hl=pt"):
        text = drawn(data, told, query)
        assert "<script>" not in text
        assert "<img" not in text
        assert 'href="<' not in text
        assert "about:blank" in text


def test_the_depth_that_can_be_reached_is_said_before_it_ends(data):
    assert "Only the first 1,000 results can be shown, of 12,345" in drawn(data, a_result(12_345), f"q={WORD}&page=99")
    assert "Only the first 1,000" not in drawn(data, a_result(12_345))
    assert "Só os primeiros 1.000 resultados podem ser vistos, de 12.345" in drawn(
        data, a_result(12_345), f"q={WORD}&page=100&hl=pt"
    )
    assert "Only the first 1,000" not in drawn(data, a_result(1_000), f"q={WORD}&page=99")


def test_scores_are_shown_where_they_rank(data):
    assert "score 1.00" in drawn(data, a_result())
    assert "score" not in drawn(data, a_result(), f"q={WORD}&sort=date").lower().replace("underscore", "")


# -- what people ask ---------------------------------------------------------------------------------------------------


def test_what_is_asked_is_told_on_this_machine_only(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record("http://a.test/", text="rede")])
    index.catch_up(data)
    with RunningSite(data) as running:
        for path in ("/?q=rede", "/?q=Rede", "/search.json?q=rede", "/?q=rede&lang=pt", "/search.rss?q=rede",
                     "/?q=nada", "/?q=a@b.test", "/?q=rede&page=2"):  # fmt: skip
            running.get(path)
        running.get("/?q=rede", "HEAD")
    with RunningSite(data) as running:
        told = json.loads(running.get("/queries.json")[1])
        for headers in ({"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}, {"Host": "evil.test"}):
            response, text = running.get("/queries.json", headers=headers)
            assert (response.status, "shown to local requests only" in text) == (403, True)
    assert told["top"] == [{"query": "rede", "times": 3, "hits": 1}, {"query": "nada", "times": 1, "hits": 0}]
    assert [one["query"] for one in told["zero"]] == ["nada"]
    assert (told["asked"], told["unkept"]) == (5, 1)


def test_a_repeated_question_is_answered_from_memory_until_the_index_changes(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record("http://a.test/", text="rede")])
    index.catch_up(data)
    with RunningSite(data) as running:
        for _ in range(3):
            assert json.loads(running.get("/search.json?q=rede")[1])["total"] == 1
        write(data, [a_record("http://b.test/", text="rede nova")], "w2")
        index.catch_up(data)
        assert json.loads(running.get("/search.json?q=rede")[1])["total"] == 2


# -- what the record of a page says of it -----------------------------------------------------------------------------

EVIL = '"><script>alert(1)</script>'


@pytest.fixture(scope="module")
def told_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    data = new_data(tmp_path_factory.mktemp("told") / "data")
    english = a_record("http://en.test/", title="Sailboat", text="a sailboat", language="en")
    portuguese = a_record("http://pt.test/", title=f"Caravela — Porto {EVIL}", text=f"uma {WORD}")
    assert english.page is not None
    assert portuguese.page is not None
    others = (
        ("en", "http://en.test/"),
        ("pt", "http://pt.test/"),
        ("fr", "javascript:alert(1)"),
        ("es", "http://x.test/"),
    )
    records = [
        msgspec.structs.replace(english, page=msgspec.structs.replace(english.page, alternates=others)),
        msgspec.structs.replace(
            portuguese, page=msgspec.structs.replace(portuguese.page, alternates=others, headline="Caravela")
        ),
    ]
    write(data, records)
    index.catch_up(data)
    with RunningSite(data) as running:
        yield running


def test_a_result_shows_the_headline_and_the_whole_title_on_hover(told_site):
    text = told_site.get(f"/?q={WORD}")[1]
    assert 'title="Caravela — Porto &#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"><mark>Caravela</mark></a>' in text
    assert "<script>alert" not in text
    told = json.loads(told_site.get(f"/search.json?q={WORD}")[1])["hits"][0]
    assert (told["title"], told["full_title"]) == ("Caravela", f"Caravela — Porto {EVIL}")


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        (f"/?q={WORD}&hl=en", ('Also in: <a href="http://en.test/" hreflang="en"', "English")),
        ("/?q=sailboat&hl=pt", ('Também em: <a href="http://pt.test/" hreflang="pt"', "Português")),
        (f"/?q={WORD}&hl=pt", None),
        ("/?q=sailboat&hl=en", None),
    ],
)
def test_a_page_that_is_also_in_the_language_of_the_reader_is_offered(told_site, path, offered):
    text = told_site.get(path)[1]
    if offered is None:
        assert "hreflang=" not in text.partition('<ol class="hits"')[2].partition("</ol>")[0]
    else:
        assert offered[0] in text
        assert f">{offered[1]}</a>" in text
    assert "javascript:" not in text


def test_programs_get_the_alternates_that_are_indexed(told_site):
    hits = json.loads(told_site.get(f"/search.json?q={WORD}")[1])["hits"]
    assert hits[0]["alternates"] == [["en", "http://en.test/"]]


def test_a_page_is_offered_in_a_language_that_the_browser_accepts(told_site):
    path, offered = f"/?q={WORD}", 'Also in: <a href="http://en.test/"'
    assert offered in told_site.get(path, headers={"Accept-Language": "de, en;q=0.8, pt;q=0.5"})[1]
    assert offered not in told_site.get(f"{path}&hl=pt", headers={"Accept-Language": "pt, en;q=0.5"})[1]
