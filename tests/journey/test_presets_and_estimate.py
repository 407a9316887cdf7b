"""From a preset to a crawl, and from an estimate to what it really took."""

import asyncio
import json
from pathlib import Path

import pytest

from tarrafa.coordinator.dry_run.crawl_estimate import estimate
from tarrafa.coordinator.dry_run.estimate_inputs import gather_estimate_inputs
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import TYPES, a_journey, tarrafa
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, links, scripted_web

SITE = {
    "http://www.site.test/": links("/dir/", "/other", "http://sub.site.test/", "http://elsewhere.test/"),
    "http://www.site.test/other": links("/dir/c"),
    "http://www.site.test/dir/": links("a", "b", "/other", "http://sub.site.test/dir/x"),
    "http://www.site.test/dir/a": links("b", "/dir/../other", "deep/d"),
    "http://www.site.test/dir/b": links("http://site.test/dir/e"),
    "http://www.site.test/dir/c": links("/"),
    "http://www.site.test/dir/deep/d": links("/"),
    "http://site.test/dir/e": links("/"),
    "http://site.test/": links("/"),
    "http://sub.site.test/": links("/x", "http://deep.sub.site.test/"),
    "http://sub.site.test/x": links("/"),
    "http://sub.site.test/dir/x": links("/"),
    "http://deep.sub.site.test/": links("/"),
    "http://elsewhere.test/": links("/"),
}
BELOW_DIR = {"http://www.site.test/dir/", "http://www.site.test/dir/a", "http://www.site.test/dir/b",
             "http://www.site.test/dir/deep/d", "http://site.test/dir/e"}  # fmt: skip


def answer(url: str, _: int) -> ScriptedResponse | None:
    said = SITE.get(url)
    if said is None:
        return None
    return ScriptedResponse(said.body + url.encode(), headers=said.headers)


def crawled(web: ScriptedWeb, folder: Path, preset: str, root: str) -> set[str]:
    """What a crawl of a preset asks for, the file edited as little as a user of this Web must."""
    folder.mkdir()
    file = folder / f"{preset}.toml"
    told = tarrafa("init", file, "--preset", preset, "--root", root)
    assert told.returncode == 0, told.stderr
    text = file.read_text().replace('delay = "1s"', "delay = 0.01")
    file.write_text(f'{text}\n[network]\nconnect_to = {{"*.test" = "127.0.0.1:{web.port}"}}\n')
    before = len(web.asked)
    told = tarrafa("crawl", file, "--data", folder / "data", "--workers", "1", "--quiet")
    assert told.returncode == 0, told.stderr
    return {one.url for one in web.asked[before:] if not one.url.endswith("/robots.txt")}


@pytest.mark.long
@pytest.mark.parametrize(
    ("preset", "root", "asked"),
    [
        ("directory", "http://www.site.test/dir/", BELOW_DIR),
        ("page", "http://www.site.test/dir/", {"http://www.site.test/dir/"}),
        ("subdomains", "http://www.site.test/", set(SITE) - {"http://elsewhere.test/"}),
        ("site", "http://www.site.test/", {url for url in SITE if url.startswith(("http://www.site", "http://site"))}),
    ],
)
def test_a_preset_crawls_what_its_title_says(tmp_path, preset, root, asked):
    with scripted_web(answer) as web:
        assert crawled(web, tmp_path / preset, preset, root) == asked


@pytest.mark.long
def test_what_a_second_crawl_takes_was_estimated_after_the_first(tmp_path):
    world = World(seed=5, hosts=12, pages=400, crawl_delay_s=0.2, crawl_delay_share=0.3)
    journey = a_journey(tmp_path, world)
    with journey.web:
        journey.crawl(journey.write_collection("first"))
        file = journey.write_collection("second")
        told = estimate(load_collection(file), asyncio.run(gather_estimate_inputs(journey.data, load_collection(file))))
        truth = expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True)
        assert (told.pages.low, told.pages.likely, told.pages.high) == (len(truth.kept),) * 3
        assert told.hosts == told.hosts_met

        begun = len(journey.requests())
        journey.crawl(file)
        assert len(journey.kept("second")) == told.pages.likely
        asked = journey.requests()[begun:]
        took_s = max(one.end for one in asked) - min(one.start for one in asked)
        assert told.requests.low <= len(asked) <= told.requests.likely
        assert told.seconds.low <= took_s, "nothing is faster than politeness"
        assert told.seconds.high is not None
        assert took_s <= told.seconds.high, (told.seconds, took_s)

        said = tarrafa("estimate", file, "--data", journey.data.root, "--json")
        assert json.loads(said.stdout)["pages"]["likely"] == len(truth.kept), said.stderr
        shown = tarrafa("estimate", file, "--data", journey.data.root)
        assert f"{len(truth.kept)}" in shown.stdout
        assert "bound by the pauses of the largest host" in shown.stdout
