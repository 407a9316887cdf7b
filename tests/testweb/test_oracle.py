"""The oracle says exactly what an obedient crawler finds over a socket."""

import pytest

from tarrafa.testweb import BY_NAME, World, describe_host, expected_requests, reachable
from tarrafa.testweb.world.resources import PageRole, ResourceKind
from tests.testweb.web_in_thread import ReferenceCrawl, WebInThread, reference_crawl

WORLD = World(seed=5, hosts=24, pages=450)


@pytest.fixture(scope="module")
def web():
    with WebInThread(WORLD, addresses=True) as web:
        yield web


@pytest.fixture(scope="module")
def whole(web: WebInThread) -> ReferenceCrawl:
    return reference_crawl(web, [WORLD.root(1)])


def test_a_real_crawl_requests_exactly_what_is_reachable_at_the_same_depths(whole):
    truth = reachable(WORLD, [WORLD.root(1)])
    assert whole.depths == {url: reached.depth for url, reached in truth.items()}
    assert {url: answer.status for url, answer in whole.answers.items()} == {
        url: it.status for url, it in truth.items()
    }
    assert {url: answer.type for url, answer in whole.answers.items() if answer.status == 200} == {
        url: it.type for url, it in truth.items() if it.status == 200
    }


def test_every_kind_of_thing_is_met(whole):
    kinds = {reached.kind for reached in reachable(WORLD, [WORLD.root(1)]).values()}
    assert kinds == set(ResourceKind) - {ResourceKind.ROBOTS, ResourceKind.SITEMAP}
    assert {200, 301, 302, 404, 410} <= {answer.status for answer in whole.answers.values()}


@pytest.mark.parametrize("depth_max", [1, 3])
def test_depth_bounds_the_crawl(web, depth_max):
    roots = [WORLD.root(1), WORLD.root(7)]
    truth = reachable(WORLD, roots, depth_max=depth_max)
    assert reference_crawl(web, roots, depth_max).depths == {url: reached.depth for url, reached in truth.items()}


def test_the_crawl_by_address_is_the_same_web(web, whole):
    form = web.server.form
    by_address = reference_crawl(web, [WORLD.root(1, form)])
    truth = reachable(WORLD, [WORLD.root(1, form)], form=form)
    assert by_address.depths == {url: reached.depth for url, reached in truth.items()}
    assert len(by_address.depths) == len(whole.depths)
    assert not [url for url in by_address.depths if ".test" in url], "links of one form lead to that form"


def test_all_open_pages_are_reached_and_hidden_ones_are_not(whole):
    met: set[str] = set()
    for no in range(1, WORLD.hosts + 1):
        for page in describe_host(WORLD, no, 0.0):
            if page.kind is not ResourceKind.PAGE:
                continue
            met.add(page.role)
            reached = page.url in whole.depths
            private_is_open = not WORLD.host(no).robots.private
            if page.role in (PageRole.OPEN, PageRole.EXCEPTION, PageRole.DEAD_END, PageRole.MOVED):
                assert reached, page
            elif page.role in (PageRole.ORPHAN, PageRole.NOFOLLOW_ONLY, PageRole.BEHIND_DEAD_END):
                assert not reached, page
            elif page.role == PageRole.PRIVATE:
                assert reached == private_is_open, page
                assert page.disallowed != private_is_open
    assert met == set(PageRole)


def test_expected_sorts_what_may_be_requested():
    truth = expected_requests(WORLD, [WORLD.root(1)], types=("text/html", "text/plain"))
    groups = (truth.kept, truth.redirects, truth.missing, truth.unwanted, truth.robots_and_sitemaps)
    assert all(groups)
    assert sum(len(group) for group in groups) == len(truth.requests), "no URL is in two groups"
    assert any(url.endswith(".txt") and "/arquivos/" in url for url in truth.kept)
    assert {url.rpartition(".")[2] for url in truth.unwanted} == {"png", "pdf", "zip"}
    assert {url for url in truth.robots_and_sitemaps if url.endswith("robots.txt")} == {
        f"{root}robots.txt" for root in WORLD.roots(BY_NAME)
    }


def test_scope_leaves_other_hosts_alone(web):
    inside = expected_requests(WORLD, [WORLD.root(1)], hosts=lambda host: host.endswith(".br.test"))
    assert inside.kept
    assert all("br.test" in url for url in inside.requests)


def test_announced_sitemaps_lead_to_orphans():
    without, with_maps = (expected_requests(WORLD, [WORLD.root(1)], sitemaps=flag).kept for flag in (False, True))
    orphans = {
        page.url for no in range(1, 25) for page in describe_host(WORLD, no, 0.0) if page.role == PageRole.ORPHAN
    }
    assert orphans
    assert not orphans & without
    assert orphans & with_maps
    assert without < with_maps


def test_the_truth_over_http_is_the_truth(web):
    import msgspec

    from tarrafa.testweb import TruthPage

    told = msgspec.json.decode(web.get(f"{WORLD.root(3)}__truth__").body)
    again = msgspec.json.decode(web.get(f"http://127.0.0.1:{web.port}/__truth__?host={WORLD.host(3).name}").body)
    assert [page["url"] for page in told["pages"]] == [page["url"] for page in again["pages"]]
    pages = msgspec.convert(told["pages"], list[TruthPage])
    assert pages == list(describe_host(WORLD, 3, told["now"]))
    assert sum(page.kind is ResourceKind.PAGE for page in pages) == WORLD.host(3).pages
    for page in pages:
        answer = web.get(page.url)
        assert (answer.status, answer.type) == (page.status, page.type or "text/html"), page
        if page.location:
            assert page.location.endswith(answer.headers["location"])
    hosts = msgspec.json.decode(web.get(f"http://127.0.0.1:{web.port}/__truth__/hosts").body)
    assert [host["host"] for host in hosts] == WORLD.names()
