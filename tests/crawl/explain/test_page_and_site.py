"""What is told about a page and a site: exact numbers, in pages, and the rest where something is missing."""

from pathlib import Path

import pytest

from tarrafa.crawl.explain.page_and_site import PageDetails, SiteDetails, WordCount, describe_page, describe_site
from tarrafa.errors import ConfigError, DataError, QueryError
from tarrafa.graph import reader
from tarrafa.graph.follower import catch_up
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.graph.sites import LinkedSite, SitePaging
from tarrafa.model import Link, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.graph.archived_web import FIRST_AT, a_record, new_data, write

NOW = FIRST_AT + 1e6
HOME = "http://www.um.br/"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


def crawled(data: DataDirectory, *records: VisitRecord, worker: str = "w1") -> None:
    write(data, records, worker)
    catch_up(data, lambda collection, weights: None)
    compute_rankings(data)


async def page(
    data: DataDirectory, url: str, collection: str | None = None, paging: SitePaging | None = None
) -> PageDetails:
    return await describe_page(data, url, NOW, collection, paging)


async def site(
    data: DataDirectory, name: str, collection: str | None = None, paging: SitePaging | None = None
) -> SiteDetails:
    return await describe_site(data, name, NOW, collection, paging)


async def test_a_page_is_told_with_its_links_their_hosts_and_the_words_of_its_newest_text(data):
    away = [Link("http://www.dois.br/a", "A"), Link("http://www.dois.br/b"), Link("https://tres.br/", "C")]
    crawled(
        data,
        a_record(HOME, 1, links=away, title="Velha", text="antes"),
        a_record("http://www.dois.br/a", links=[Link(HOME, "volta"), Link(HOME, "casa")]),
        a_record(HOME, 2, links=[*away, Link(HOME)], title="Nova", text="rede e mar, mar e rede, mar"),
        a_record(HOME, 3, status=500),
    )
    found = await page(data, "www.um.br")
    assert (found.url, found.title, found.status, found.collections) == (HOME, "Nova", 500, ["small"])
    assert [(one.url, one.anchor) for one in found.incoming] == [("http://www.dois.br/a", "volta · casa")]
    assert (found.in_total, found.in_links, found.out_total) == (1, 1, 4)
    assert found.out_hosts == [
        LinkedSite("http://www.dois.br:80", 2),
        LinkedSite("http://www.um.br:80", 1),
        LinkedSite("https://tres.br:443", 1),
    ]
    assert found.words == [WordCount("mar", 3), WordCount("e", 2), WordCount("rede", 2)]
    assert found.rank > 1, "who is linked to matters more than the rest"
    assert (found.state, found.history, "frontier" in str(found.frontier)) == ("", [], True)


async def test_lists_of_a_page_come_in_pages_with_exact_totals(data):
    many = [f"http://h{n}.br/" for n in range(25)]
    crawled(data, a_record(HOME, links=many), *(a_record(url, links=[HOME]) for url in many))
    parts = [await page(data, HOME, paging=SitePaging(10, offset, offset, offset)) for offset in (0, 10, 20, 30)]
    assert [len(part.incoming) for part in parts] == [10, 10, 5, 0]
    for names in (
        [one.url for part in parts for one in part.incoming],
        [one.url for part in parts for one in part.outgoing],
        [one.name.removesuffix(":80") + "/" for part in parts for one in part.out_hosts],
    ):
        assert sorted(names) == sorted(many)
    assert {(part.in_total, part.out_total, part.out_hosts_total) for part in parts} == {(25, 25, 25)}
    with pytest.raises(QueryError, match="first 100,000 links"):
        await page(data, HOME, paging=SitePaging(10, in_offset=100_001))


async def test_where_too_many_link_the_collection_that_counts_most_speaks_for_all(data, monkeypatch):
    crawled(
        data,
        *(a_record(f"http://h{n}.br/", links=[HOME]) for n in range(3)),
        *(a_record(f"http://h{n}.br/", links=[HOME], collection="outra") for n in range(2, 7)),
    )
    assert (await page(data, HOME)).in_total == 7
    monkeypatch.setattr(reader, "COLLAPSED_MAX", 7)
    assert (await page(data, HOME)).in_total == 5
    assert (await page(data, HOME, "small")).in_total == 3


async def test_without_its_archive_a_page_has_no_words_and_the_rest_is_told(data):
    crawled(data, a_record(HOME, links=["http://www.dois.br/"], text="rede"), worker="w1")
    for path in data.archive.iterdir():
        path.unlink()
    found = await page(data, HOME)
    assert (found.words, found.text_chars, found.out_total) == ([], 0, 1)


@pytest.mark.parametrize("damage", [lambda old: old[:100], lambda old: b"no archive at all" * 100, lambda old: b""])
async def test_a_damaged_archive_costs_the_words_only(data, damage):
    crawled(data, a_record(HOME, links=["http://www.dois.br/"], text="rede"))
    (path,) = data.archive.glob("*.meta.warc.gz")
    path.write_bytes(damage(path.read_bytes()))
    assert ((await page(data, HOME)).words, (await page(data, HOME)).out_total) == ([], 1)


async def test_what_nobody_knows_is_one_clear_line(data):
    with pytest.raises(ConfigError, match="no crawled page is or links to this URL"):
        await page(data, HOME)
    with pytest.raises(DataError, match="no ranking of the sites yet"):
        await site(data, "um.br")
    crawled(data, a_record(HOME, links=["http://www.dois.br/"]))
    for wrong in ("ftp://um.br/", "", "http://", "\x00"):
        with pytest.raises(ConfigError):
            await page(data, wrong)
        with pytest.raises(ConfigError, match="no URL is known"):
            await site(data, wrong)
    with pytest.raises(ConfigError, match="of the collection 'outra'"):
        await site(data, "um.br", "outra")


async def test_a_site_is_told_with_its_hosts_errors_and_the_sites_around_it(data):
    crawled(
        data,
        a_record(HOME, links=["http://www.um.br/x", "http://lab.um.br/", "http://www.dois.br/", "http://tres.br/"]),
        a_record("http://www.um.br/x", status=404),
        a_record("http://lab.um.br/", status=301, location=HOME),
        a_record("http://www.dois.br/", links=[HOME, "http://lab.um.br/"]),
    )
    found = await site(data, "UM.br")
    assert (found.name, found.kind, found.known, found.visited, found.fetched, found.errors) == (
        "um.br", "site", 3, 3, 1, 1,
    )  # fmt: skip
    assert [(one.status, one.urls) for one in found.statuses] == [(200, 1), (301, 1), (404, 1)]
    assert [(host.host, host.known) for host in found.hosts] == [("http://www.um.br:80", 2), ("http://lab.um.br:80", 1)]
    assert (found.incoming, found.in_total) == ([LinkedSite("dois.br", 2)], 1)
    assert (found.outgoing, found.out_total) == ([LinkedSite("dois.br", 1), LinkedSite("tres.br", 1)], 2)
    host = await site(data, "www.um.br")
    assert (host.kind, host.name, host.site, host.known) == ("host", "http://www.um.br:80", "um.br", 2)
    assert host.incoming == [LinkedSite("http://lab.um.br:80", 1), LinkedSite("http://www.dois.br:80", 1)]
    assert (found.states, "frontier" in str(found.frontier)) == ([], True)
