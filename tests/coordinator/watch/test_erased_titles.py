"""What a watch has told of a page that is erased: its title goes."""

from tarrafa.coordinator.store import store_file
from tarrafa.crawl.compaction.compaction import compact
from tarrafa.crawl.compaction.erase_orders import order_erasure
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import parse_target
from tests.coordinator.watch.test_watches import BESIDE, ELSEWHERE, PAGE, WatchedArchive
from tests.crawl.compaction.test_erasure import files_with


def test_an_erasure_leaves_no_title_in_what_was_told(tmp_path):
    archive = WatchedArchive(tmp_path)
    number = archive.watch("query", "rede", webhook="http://127.0.0.1:9/", period="0 s")
    archive.visit(PAGE, "rede")
    archive.visit(BESIDE, "rede")
    archive.visit(ELSEWHERE, "rede")
    assert len(archive.told(number)[0]) == 3
    archive.site.close()
    assert any("coordinator.sqlite" in name for name in files_with(archive.data, b"A page"))
    order_erasure(archive.data, parse_target("site:site.test"), "ana", "court order 12", archive.now)
    assert compact(archive.data, now=4e9).erased == ["site:site.test"]
    assert {one.url: one.title for one in archive.items(number)[0]} == {PAGE: "", BESIDE: "", ELSEWHERE: "A page"}
    with store_file(archive.data.coordinator).reading() as connection:
        ((body,),) = rows(connection, "SELECT body FROM notice")
    assert body.count(b"A page") == 1, "that of the page elsewhere"
    order_erasure(archive.data, parse_target(ELSEWHERE), "ana", "court order 12", archive.now)
    compact(archive.data, now=4e9)
    assert files_with(archive.data, b"A page") == []
