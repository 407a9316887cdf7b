"""What one answer means: outcome, record and where it leads."""

import msgspec
import pytest
from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.committer import LinkCache
from tarrafa.crawl.worker.fetcher import build_request, decode_response, format_request
from tarrafa.crawl.worker.outcome import FinishedVisit, conclude
from tarrafa.crawl.worker.parser_with_sandbox import run_parse_job
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchResponse, ResponseHead
from tarrafa.fetch.robots import RobotsRules
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import PageDate, Status, UrlRole, Visit
from tarrafa.parse.robots_meta_usage import reserved_uses
from tarrafa.parse.url import host_id, host_key, url_id
from tests.fetch.raw_server import a_server

URL = "http://a.br/dir/page"
PAGE = b"<html lang=pt><title>Rede</title><p>O pescador da vila lan\xc3\xa7a a rede ao mar de manh\xc3\xa3 cedo."


def a_collection(**sections: dict[str, object]) -> Collection:
    table = {"name": "c", "roots": ["http://a.br/"], "scope": {"hosts": ["a.br", "*.b.br"]}} | sections
    return config.collection_from_table(table, "test")


def a_visit(**more: object) -> Visit:
    settings = {"depth": 1, "redirects": 0, "number": 1} | more
    return Visit(1, host_id(host_key(URL)), url_id(URL), URL, **settings)  # type: ignore[arg-type]


def concluded(
    body: bytes = PAGE,
    *,
    code: int = 200,
    visit: Visit | None = None,
    collection: Collection | None = None,
    at: float = 1000.0,
    rules: RobotsRules | None = None,
    **fields: str,
) -> FinishedVisit:
    collection, visit = collection or a_collection(), visit or a_visit()
    headers = {"content-type": "text/html; charset=utf-8"} | {
        key.replace("_", "-"): text for key, text in fields.items()
    }
    head = ResponseHead(code, tuple(headers.items()))
    response = FetchResponse(code, head, b"HTTP/1.1 200 OK\r\n\r\n", body, "192.0.2.1", 0.25)
    request, admission = build_request(visit.url, collection, visit), Admission(collection)
    given = decode_response(visit, response, collection, admission) if code == 200 else None
    reading = run_parse_job(given.job) if given is not None and given.job is not None else None
    return conclude(visit, request, response, collection, admission, at, given, reading, rules=rules)


PROSE = "<p>" + " ".join(f"O pescador número {number} lança a rede ao mar de manhã cedo." for number in range(30))


@pytest.mark.parametrize(
    ("change", "other", "changed"),
    [
        ("text", "<nav>Visitas: 2</nav>" + PROSE, True),
        ("content", "<nav>Visitas: 2</nav>" + PROSE, False),
        ("content", "<nav>Visitas: 1</nav>" + PROSE + " Fim.", True),
        ("content", "<nav>Visitas: 1</nav><p>Só isto.", True),
        ("text", "<nav>Visitas: 1</nav>" + PROSE, False),
    ],
)
def test_a_page_has_changed_by_its_text_or_by_its_content_as_the_collection_says(change, other, changed):
    collection = a_collection(revisit={"change": change})
    first = concluded(f"<nav>Visitas: 1</nav>{PROSE}".encode(), collection=collection).record
    visit = a_visit(content_id=first.outcome.content_id)
    second = concluded(other.encode(), collection=collection, visit=visit).record
    assert second.outcome.changed is changed
    assert (second.outcome.content_id != first.outcome.content_id) is changed
    assert first.page is not None
    assert second.page is not None
    assert (second.page.content_id == first.page.content_id) is (other == f"<nav>Visitas: 1</nav>{PROSE}")


@pytest.mark.parametrize("change", ["text", "content"])
def test_a_page_with_little_content_has_changed_by_its_text(change):
    collection = a_collection(revisit={"change": change})
    first = concluded(b"<nav>1</nav><p>Pouco.", collection=collection).record.outcome
    other = concluded(b"<nav>2</nav><p>Pouco.", collection=collection, visit=a_visit(content_id=first.content_id))
    assert other.record.outcome.changed


def offered(done: FinishedVisit) -> dict[str, int]:
    return {offer.url: offer.depth for offer in done.discovered}


def test_a_page_is_kept_with_its_bytes_its_text_and_its_links_in_scope():
    done = concluded(
        PAGE + b'<a href="../x">X</a> <a href="http://www.b.br/y#z">Y</a> <a href="http://elsewhere.com/">Z</a>'
    )
    assert done.record.outcome.kept
    assert done.record.page is not None
    assert (done.record.page.title, done.record.page.language) == ("Rede", "pt")
    assert offered(done) == {"http://a.br/x": 2, "http://www.b.br/y": 2}
    assert done.exchange is not None
    assert done.exchange.response.endswith(b"</a>")
    assert [link.url for link in done.record.page.links][-1] == "http://elsewhere.com/", "the graph knows them all"


def test_the_outcome_tells_announced_dates_and_changes_since_the_last_version():
    first = concluded(visit=a_visit(announced=900.0)).record.outcome
    assert (first.announced, first.changed, first.same_since) == (900.0, False, 0.0)
    known = {"content_id": first.content_id, "payload": first.payload, "archived": 500.0}
    same = concluded(visit=a_visit(**known)).record.outcome
    assert (same.changed, same.same_since) == (False, 500.0)
    other = concluded(PAGE + b" Outra frase.", visit=a_visit(**known)).record.outcome
    assert (other.changed, other.same_since) == (True, 0.0)
    gone = concluded(b"", code=404, visit=a_visit(announced=900.0, **known)).record.outcome
    assert (gone.announced, gone.changed, gone.same_since) == (0.0, False, 0.0)


def test_a_date_in_the_future_of_the_visit_is_refused():
    def dates_at(at: float, published: str, modified: str) -> tuple[PageDate | None, PageDate | None]:
        meta = f'<meta name=pubdate content="{published}"><meta name=lastmod content="{modified}">'
        page = concluded(meta.encode() + PAGE, at=at).record.page
        assert page is not None
        return page.published, page.modified

    day, next_day = PageDate(1_000_000_800, "meta", True), PageDate(1_000_087_200, "meta", True)
    texts = "2001-09-09T02:00:00Z", "2001-09-10T02:00:00Z"
    assert dates_at(1_000_000_800.0, *texts) == (day, next_day), "a day later: clocks differ"
    assert dates_at(1_000_000_000.0, *texts) == (day, None)
    assert dates_at(900_000_000.0, *texts) == (None, None)


@pytest.mark.parametrize("rel", ["nofollow", "ugc", "noopener SPONSORED"])
def test_links_that_their_author_does_not_vouch_for_are_recorded_not_followed(rel):
    done = concluded(PAGE + f'<a rel="{rel}" href="/x">X</a>'.encode())
    assert done.discovered == []
    assert done.record.page is not None
    assert len(done.record.page.links) == 1


def test_a_page_that_says_nofollow_leads_nowhere_by_meta_or_by_header():
    assert concluded(b"<meta name=robots content=nofollow><a href=/x>").discovered == []
    assert concluded(PAGE + b"<a href=/x>", x_robots_tag="nofollow").discovered == []


def test_a_redirect_leads_to_its_target_at_no_cost_in_depth():
    done = concluded(b"", code=301, location="/new", visit=a_visit(depth=3, redirects=2))
    assert [(offer.url, offer.depth, offer.redirects) for offer in done.discovered] == [("http://a.br/new", 3, 3)]
    assert (done.record.outcome.location, done.record.outcome.kept) == ("http://a.br/new", False)
    assert done.exchange is not None, "redirects are archived"


@pytest.mark.parametrize(
    ("body", "fields", "archived"),
    [
        (b"%PDF-1.7 and then nothing", {}, True),
        (b"%PDF-1.7 and then nothing", {"x_robots_tag": "noindex, noarchive"}, False),
        (b"\x1f\x8b\x08 no gzip", {"content_type": "text/html", "content_encoding": "gzip"}, True),
    ],
)
def test_a_document_that_cannot_be_read_is_archived_as_it_came(body, fields, archived):
    collection = a_collection(scope={"hosts": ["a.br"], "types": ["text/html", "application/pdf"]})
    done = concluded(body, collection=collection, **{"content_type": "application/pdf"} | fields)
    assert (done.record.outcome.status, done.record.outcome.kept) == (Status.INVALID_RESPONSE, False)
    assert (done.exchange is not None) == archived
    if done.exchange is not None:
        assert done.exchange.response.endswith(body)


def test_a_chain_of_redirects_ends_at_its_limit():
    done = concluded(b"", code=302, location="/new", visit=a_visit(redirects=5))
    assert (done.record.outcome.status, done.discovered) == (Status.REDIRECTS_EXCEEDED, [])


@pytest.mark.parametrize("location", ["javascript:alert(1)", "http://[", "", "mailto:a@b.br", "http://elsewhere.com/"])
def test_a_redirect_to_nowhere_or_out_of_scope_leads_nowhere(location):
    assert concluded(b"", code=301, location=location).discovered == []


def test_a_location_in_raw_utf8_is_understood():
    done = concluded(b"", code=301, location="/açúcar".encode().decode("latin-1"))
    assert list(offered(done)) == ["http://a.br/a%C3%A7%C3%BAcar"]


def test_pages_in_other_languages_are_not_kept_but_followed():
    english = (
        b"<title>Net</title><p>The fisherman of the village throws the net into the sea in the morning.<a href=/x>x</a>"
    )
    done = concluded(english, collection=a_collection(scope={"hosts": ["a.br"], "languages": ["pt"]}))
    assert done.record.outcome.status == Status.LANGUAGE_NOT_WANTED
    assert not done.record.outcome.kept
    assert done.exchange is None
    assert done.record.page is not None
    assert done.record.page.text == "", "no body of what is not kept"
    assert list(offered(done)) == ["http://a.br/x"]


PORTUGUESE = "<p>O pescador da vila lança a rede ao mar de manhã cedo e volta para casa com os peixes.".encode()
ENGLISH = b"<p>The fisherman of the village throws the net into the sea in the morning."
WAYS_OUT = (
    b'<a href="http://a.br/x">x</a><a href="http://else.pt/y">y</a><a href="http://else.pt/private/z">z</a>'
    b'<a href="http://far.com/" rel=nofollow>n</a><a href="http://else.pt/file.zip">f</a>'
)
OUTSIDE = "http://else.pt/page"


def beyond(**scope: object) -> Collection:
    return a_collection(scope={"hosts": ["a.br"], "languages": ["pt"], "exclude": ["*/private/*"]} | scope)


def outside(**more: object) -> Visit:
    return replace(a_visit(**more), url=OUTSIDE, id=url_id(OUTSIDE), host=host_id(host_key(OUTSIDE)))


def test_with_languages_a_kept_page_leads_beyond_the_hosts_but_not_to_what_is_excluded():
    done = concluded(PORTUGUESE + WAYS_OUT, collection=beyond())
    assert offered(done) == {"http://a.br/x": 2, "http://else.pt/y": 2, "http://else.pt/file.zip": 2}
    assert [offer.status for offer in done.discovered] == [0, 0, Status.TYPE_NOT_WANTED]
    assert list(offered(concluded(PORTUGUESE + WAYS_OUT, collection=beyond(beyond=False)))) == ["http://a.br/x"]


def test_a_page_that_is_not_kept_leads_nowhere_beyond():
    done = concluded(ENGLISH + WAYS_OUT, collection=beyond())
    assert done.record.outcome.status == Status.LANGUAGE_NOT_WANTED
    assert list(offered(done)) == ["http://a.br/x"]
    done = concluded(PORTUGUESE + WAYS_OUT, collection=beyond(keep="structured"))
    assert list(offered(done)) == ["http://a.br/x"]


def test_a_page_beyond_is_kept_and_followed_only_if_its_language_is_wanted():
    done = concluded(PORTUGUESE + WAYS_OUT, collection=beyond(), visit=outside())
    assert done.record.outcome.kept
    assert list(offered(done)) == ["http://a.br/x", "http://else.pt/y", "http://else.pt/file.zip"]
    done = concluded(ENGLISH + WAYS_OUT, collection=beyond(), visit=outside())
    assert (done.record.outcome.status, done.record.outcome.kept) == (Status.LANGUAGE_OUTSIDE, False)
    assert done.discovered == []


def test_redirects_may_lead_beyond_too():
    done = concluded(b"", code=301, location="http://else.pt/y", collection=beyond(), visit=outside())
    assert offered(done) == {"http://else.pt/y": 1}
    done = concluded(b"", code=301, location="http://else.pt/private/y", collection=beyond())
    assert done.discovered == []


def test_a_root_outside_the_hosts_is_no_page_beyond():
    collection = config.collection_from_table(
        {"name": "c", "roots": [OUTSIDE], "scope": {"hosts": ["a.br"], "languages": ["pt"]}}, "test"
    )
    done = concluded(ENGLISH + WAYS_OUT, collection=collection, visit=outside(depth=0))
    assert done.record.outcome.status == Status.LANGUAGE_NOT_WANTED
    assert list(offered(done)) == ["http://a.br/x"], "it was named: it is followed as ever"


def test_breadth_is_told_how_many_pages_of_other_sites_a_page_vouches_for():
    links = (
        b'<a href="/x">x</a><a href="http://www.a.br/">same site</a><a href="http://b.br/">1</a>'
        b'<a href="http://b.br/#again">1</a><a href="http://b.br/y">2</a><a href="http://c.com.br/">3</a>'
        b'<a href="http://d.br/" rel=nofollow>not vouched for</a><a href="mailto:a@e.br">none</a>'
    )
    breadth = a_collection(strategy={"order": "breadth"})
    assert concluded(PAGE + links, collection=breadth).record.outcome.external == 3
    assert concluded(PAGE + links).record.outcome.external == 0, "nobody asked"
    silent = concluded(PAGE + links, collection=breadth, x_robots_tag="nofollow")
    assert silent.record.outcome.external == 0


def test_only_structured_pages_are_kept_if_so_asked():
    structured = a_collection(scope={"hosts": ["a.br"], "keep": "structured"})
    rich = b'<div vocab="https://schema.org/" typeof="Person"><span property="name">Ana</span></div><a href="/x">x</a>'
    assert concluded(PAGE + rich, collection=structured).record.outcome.kept
    plain = concluded(PAGE + b'<a href="/x">x</a>', collection=structured)
    assert (plain.record.outcome.status, plain.record.outcome.kept) == (Status.NOT_STRUCTURED, False)
    assert plain.exchange is None
    assert plain.record.page is not None
    assert (plain.record.page.text, len(plain.record.page.links)) == ("", 1)
    assert [offer.url for offer in plain.discovered] == ["http://a.br/x"], "its links are followed"


def test_only_pages_that_speak_a_wanted_vocabulary_are_kept_if_so_asked():
    rich = b'<div vocab="https://schema.org/" typeof="Person"><span property="name">Ana</span></div>'
    for wanted, kept in (("https://schema.org/", True), ("http://xmlns.com/foaf/0.1/", False)):
        collection = a_collection(scope={"hosts": ["a.br"], "keep": "structured", "vocabularies": [wanted]})
        done = concluded(PAGE + rich, collection=collection)
        assert done.record.outcome.kept is kept
        assert done.record.page is not None
        assert bool(done.record.page.text) is kept


SCHEMA = "https://schema.org/"
RDFA = b'<div vocab="http://schema.org/" typeof="Person"><b property="name">Ana</b></div>'
MICRODATA = b'<div itemscope itemtype="http://schema.org/Person"><b itemprop="name">Ana</b></div>'
JSON_LD = b'<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Person"}</script>'
FOAF = b'<div vocab="http://xmlns.com/foaf/0.1/" typeof="Person"><b property="name">Ana</b></div>'
OPEN_GRAPH = (
    b'<meta property="og:title" content="Ana"><meta property="article:author" content="Bia">'
    b'<meta prefix="fb: http://ogp.me/ns/fb#" property="fb:app_id" content="1">'
    b'<meta prefix="fb: http://www.facebook.com/2008/fbml#" property="fb:admins" content="2">'
)


@pytest.mark.parametrize(
    ("data", "settings", "kept"),
    [
        (RDFA, {"syntaxes": ["rdfa"]}, True),
        (MICRODATA, {"syntaxes": ["rdfa"]}, False),
        (JSON_LD, {"syntaxes": ["rdfa"]}, False),
        (JSON_LD, {"syntaxes": ["microdata", "jsonld"]}, True),
        (MICRODATA, {"syntaxes": ["microdata"]}, True),
        (JSON_LD + FOAF, {"syntaxes": ["rdfa"], "vocabularies": [SCHEMA]}, False),
        (JSON_LD + FOAF, {"syntaxes": ["rdfa"], "vocabularies": [SCHEMA, "http://xmlns.com/foaf/0.1/"]}, True),
        (JSON_LD + FOAF, {"syntaxes": ["jsonld"], "vocabularies": [SCHEMA]}, True),
        (OPEN_GRAPH, {}, False),
        (OPEN_GRAPH, {"syntaxes": ["rdfa"]}, False),
        (OPEN_GRAPH, {"open_graph": True}, True),
        (OPEN_GRAPH, {"syntaxes": ["rdfa"], "open_graph": True}, True),
        (OPEN_GRAPH, {"vocabularies": ["http://ogp.me/ns#"]}, True),
        (OPEN_GRAPH + JSON_LD, {}, True),
        (OPEN_GRAPH + JSON_LD, {"syntaxes": ["rdfa"]}, False),
        (b"", {"open_graph": True}, False),
    ],
)
def test_structured_data_count_by_syntax_and_vocabulary_and_open_graph_by_choice(data, settings, kept):
    collection = a_collection(scope={"hosts": ["a.br"], "keep": "structured", **settings})
    done = concluded(PAGE + data, collection=collection)
    assert done.record.outcome.kept is kept
    assert done.record.outcome.status == (200 if kept else Status.NOT_STRUCTURED)


@pytest.mark.parametrize("seconds", [0, 4])
def test_a_page_that_sends_its_reader_away_at_once_is_a_redirect(seconds):
    body = PAGE + f'<meta http-equiv=refresh content="{seconds}; url=/new"><a href="/new">aqui</a>'.encode()
    done = concluded(body, visit=a_visit(depth=2))
    assert [(offer.url, offer.depth, offer.redirects) for offer in done.discovered] == [("http://a.br/new", 2, 1)]
    assert (done.record.outcome.status, done.record.outcome.kept) == (200, False)
    assert concluded(body, visit=a_visit(redirects=5)).discovered == [], "and a chain of them ends"


def test_a_page_that_lets_its_reader_read_first_is_a_page_with_a_link():
    done = concluded(PAGE + b'<meta http-equiv=refresh content="30; url=/new">')
    assert done.record.outcome.kept
    assert [(offer.url, offer.depth, offer.redirects) for offer in done.discovered] == [("http://a.br/new", 2, 0)]


def test_a_page_with_content_that_refreshes_at_once_is_kept_and_leads_on():
    done = concluded(PAGE * 6 + b'<meta http-equiv=refresh content="0; url=/new">')
    assert done.record.outcome.kept
    assert [(offer.url, offer.depth, offer.redirects) for offer in done.discovered] == [("http://a.br/new", 2, 0)]


def test_usage_preferences_of_page_header_and_robots_txt_are_kept_with_the_page():
    rules = parse_robots(b"User-agent: *\nContent-Usage: /dir/ train-ai=n\nContent-Usage: train-ai=y\n")
    done = concluded(b"<meta name=robots content=noai>" + PAGE, rules=rules, tdm_reservation="0", x_robots_tag="noai")
    assert done.record.page is not None
    assert [(one.source, one.text) for one in done.record.page.usage] == [
        ("page", "noai"), ("header", "tdm-reservation: 0"), ("header", "noai"),
        ("robots.txt", "Content-Usage: /dir/ train-ai=n"),
    ]  # fmt: skip
    assert reserved_uses(done.record.page) == {"ai-input", "ai-train"}


def test_a_page_without_usage_preferences_stores_no_byte_about_them():
    done = concluded(PAGE, rules=parse_robots(b"User-agent: *\nDisallow: /x\n"), link="</a.css>; rel=preload")
    assert done.record.page is not None
    assert b"usage" not in msgspec.json.encode(done.record)


def test_the_very_text_of_the_page_that_led_here_leads_nowhere():
    body = PAGE + b"<a href=sub/>x</a>"
    first = concluded(body)
    (offer,) = first.discovered
    assert offer.parent == bytes.fromhex(first.record.outcome.content_id[:16])
    second = concluded(body, visit=a_visit(parent=offer.parent))
    assert second.record.outcome.kept
    assert second.discovered == []


def test_a_list_that_goes_on_beside_itself_is_followed_though_it_says_the_same():
    """A gallery without words: its second page has the text of the first."""
    first = concluded(PAGE + b"<a href=page2>x</a>")
    (offer,) = first.discovered
    assert offer.parent == b""


def test_a_sitemap_that_moved_is_still_a_sitemap():
    done = concluded(b"", code=301, location="http://c.br/index.xml", visit=a_visit(role=UrlRole.SITEMAP))
    assert [(offer.url, offer.role, offer.redirects) for offer in done.discovered] == [("http://c.br/index.xml", 1, 1)]


def test_nobody_turns_the_pages_of_another_host_into_sitemaps():
    admission = Admission(a_collection())
    urls = ["http://a.br/map", "http://www.b.br/page.html", "http://cdn.com/a.br.xml.gz"]
    assert [offer.url for offer in admission.admit_sitemaps(urls, "http://a.br:80", 0)] == [urls[0], urls[2]]


def test_links_that_their_looks_refuse_are_offered_with_the_reason():
    done = concluded(PAGE + b"<a href=/x.jpg>1</a><a href=/a/a/a/a>2</a><a href=/ok>3</a>")
    assert {offer.url: offer.status for offer in done.discovered} == {
        "http://a.br/x.jpg": Status.TYPE_NOT_WANTED, "http://a.br/a/a/a/a": Status.TRAP, "http://a.br/ok": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (PAGE, 200, "text/html"),
        ("só texto".encode(), 200, "text/plain"),
        (bytes(range(256)), Status.TYPE_NOT_WANTED, ""),
        (b"%PDF-1.4 ...", Status.TYPE_NOT_WANTED, ""),
    ],
)
def test_what_comes_without_a_type_is_judged_by_its_looks(body, status, kind):
    outcome = concluded(body, content_type="").record.outcome
    assert (outcome.status, outcome.type) == (status, kind)


def test_what_is_neither_sitemap_nor_feed_is_a_status():
    done = concluded(b"<html><p>Not found", visit=a_visit(role=UrlRole.SITEMAP))
    assert (done.record.outcome.status, done.discovered) == (Status.INVALID_RESPONSE, [])


def test_who_runs_the_crawl_is_named_in_every_request():
    politeness: dict[str, object] = {"contact": "https://a.br/bot", "email": "bot@a.br"}
    headers = dict(build_request(URL, a_collection(politeness=politeness), a_visit()).headers)
    assert headers["From"] == "bot@a.br"
    assert headers["User-Agent"].endswith("(+https://a.br/bot)")
    assert "Cookie" not in headers


def test_what_cannot_be_decoded_is_a_status():
    assert concluded(b"not gzip", content_encoding="gzip").record.outcome.status == Status.INVALID_RESPONSE


def test_excluded_patterns_are_left_out():
    collection = a_collection(scope={"hosts": ["a.br"], "exclude": ["*/login*", "*.pdf"]})
    done = concluded(PAGE + b"<a href=/login?x=1>1</a><a href=/a.pdf>2</a><a href=/ok>3</a>", collection=collection)
    assert list(offered(done)) == ["http://a.br/ok"]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"content-type": "image/png"}, Status.TYPE_NOT_WANTED),
        ({"content-type": "text/html", "content-length": "99999999999"}, Status.TOO_LARGE),
        ({"content-type": "TEXT/HTML; charset=x"}, 0),
        ({}, 0),
    ],
)
def test_the_header_decides_before_the_body_is_fetched(fields, verdict):
    request = build_request(URL, a_collection(), a_visit())
    assert request.check_head(ResponseHead(200, tuple(fields.items()))) == verdict


async def test_the_archived_request_is_byte_for_byte_what_went_over_the_wire():
    async with a_server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        collection = a_collection(politeness={"contact": "https://a.br/bot"})
        visit = a_visit(etag='"abc"', last_modified="Sun, 06 Nov 1994 08:49:37 GMT")
        request = build_request("http://a.br:8080/x?y=%C3%A7&z=1", collection, visit)
        request.connect_to = f"127.0.0.1:{server.port}"
        client = HttpClient(1)
        await client.fetch(request)
        client.close()
        sent, archived = server.requests[0], format_request(request)
    assert archived == sent
    assert b"User-Agent: Tarrafa/" in sent
    assert b"(+https://a.br/bot)" in sent


def test_a_worker_offers_each_url_once_at_its_smallest_depth_and_again_only_if_it_falls():
    def offer(number: int, depth: int) -> DiscoveredUrl:
        return DiscoveredUrl(1, bytes([number]) * 16, f"http://a.br/{number}", "http://a.br:80", depth)

    delivered = LinkCache(most=3)
    news = delivered.filter_new(1, [offer(1, 3), offer(1, 2), offer(2, 5)])
    assert [(one.url, one.depth) for one in news] == [("http://a.br/1", 2), ("http://a.br/2", 5)]
    delivered.remember(1, news)
    assert delivered.filter_new(1, [offer(1, 2), offer(2, 6)]) == []
    assert delivered.filter_new(1, [offer(2, 4)]) == [offer(2, 4)]
    assert delivered.filter_new(2, [offer(1, 2)]) == [offer(1, 2)], "another collection has not heard of it"
    delivered.remember(1, [offer(number, 1) for number in (3, 4, 5)])
    assert delivered.filter_new(1, [offer(1, 2)]) == [offer(1, 2)], "bounded: the oldest is forgotten"


def test_the_memory_of_what_was_delivered_tells_its_hit_rate():
    offers = [DiscoveredUrl(1, bytes([n]) * 16, f"http://a.br/{n}", "http://a.br:80", 1) for n in range(10)]
    delivered = LinkCache()
    assert delivered.hit_rate_text() == ""
    delivered.remember(1, delivered.filter_new(1, offers))
    assert (delivered.urls_seen, delivered.urls_delivered) == (10, 10)
    for _ in range(3):
        assert delivered.filter_new(1, offers) == []
    assert (delivered.urls_seen, delivered.urls_delivered) == (40, 10)
    assert str(delivered.hit_rate_text()) == "links delivered before: 75.0% of 40 (URLs in the cache: 10)"


@pytest.mark.parametrize(
    ("header", "noted"),
    [("nginx/1.26", "nginx/1.26"), ("", ""), ("a\x1b[31m\tb", "a[31mb"), ("x" * 5_000, "x" * 100)],
)
def test_the_software_that_answered_is_noted_in_one_line_that_can_be_shown(header, noted):
    assert concluded(server=header).record.outcome.server == noted
    assert concluded(b"", code=404, server=header).record.outcome.server == noted
