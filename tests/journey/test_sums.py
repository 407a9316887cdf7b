"""Where the pages are: of the README's first crawl, every known URL and every kept page has a place with a name."""

from tarrafa.frontier.messages import CollectionStatus
from tarrafa.model import OLD_CAUSE, unkept_cause_name
from tarrafa.testweb.world.hosts import World
from tests.contract.frontier_bodies import check_sums
from tests.journey.crawl_journey import a_journey, run_json, tarrafa


def test_the_sums_of_the_first_crawl_of_the_readme_are_exact(tmp_path):
    journey = a_journey(tmp_path, World(seed=1, hosts=40, pages=2_000))
    with journey.web:
        scope = 'hosts = ["*.br.test", "*.pt.test"]\npages_max = 500'
        journey.crawl(journey.write_collection("first", scope), "--quiet")
    found = run_json("status", "--data", journey.data.root)
    (one,), (pages,) = found["collections"], found["pages"]
    names = {name for name in CollectionStatus.__struct_fields__ if name in one}
    check_sums(CollectionStatus(**{name: one[name] for name in names}))
    assert one["known"] == one["fetched"] + sum(one["unkept"].values()) + one["pending"] + one["too_deep"]
    assert one["fetched"] == pages["kept"] == pages["searchable"] + pages["noindex"], "a finished crawl is indexed"
    assert len(one["unkept"]) > 5
    assert OLD_CAUSE not in one["unkept"]
    assert all(unkept_cause_name(cause) for cause in one["unkept"])
    shown = " ".join(tarrafa("status", "--data", journey.data.root).stdout.split())
    for cause, count in one["unkept"].items():
        assert f"{unkept_cause_name(cause)}: {count}" in shown
    assert f"{pages['searchable']} of {pages['kept']} pages can be searched; {pages['noindex']} say noindex" in shown
