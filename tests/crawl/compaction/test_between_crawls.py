"""A crawl that was killed is compacted, goes on, and ends as one that nobody touched; a host of it is erased."""

from collections import Counter
from pathlib import Path

from tarrafa.crawl.compaction.compaction import compact
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.crawl.compaction.test_erasure import erase, order
from tests.crawl.compaction.versions import assert_clean, captures_of, set_file_size
from tests.journey.crawl_journey import TYPES, a_journey, assert_exact, check_warc, kill_group, wait_until_kept


def test_a_crawl_goes_on_after_a_compaction(tmp_path: Path) -> None:
    journey = a_journey(tmp_path, World(hosts=6, pages=120))
    data = journey.data
    data.root.mkdir()
    set_file_size(data, 60_000)
    with journey.web:
        file = journey.write_collection()
        process = journey.start(file)
        wait_until_kept(journey, process, 40)
        kill_group(process)
        kept = journey.kept()
        before = len(list(data.archive.glob("*.durable")))
        set_file_size(data, 10_000_000)
        result = compact(data)
        assert result.pairs_after < before
        assert journey.kept() == kept
        assert_clean(data)
        journey.crawl(file)
        assert_exact(journey, expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True))
    visits = Counter((record.url, record.visit) for record in journey.records())
    assert max(visits.values()) == 1, "the kill may repeat a visit, under another number"
    assert_clean(data)
    compact(data)
    assert_clean(data)
    assert check_warc(journey) > 200
    order(data, "host:h0001.br.test")
    assert erase(data) == ["host:h0001.br.test"]
    assert not [one for one in captures_of(data) if "h0001.br.test" in one.url]
    assert_clean(data)
