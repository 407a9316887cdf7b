"""The numbers of two collections that share hosts, in every place that shows them: commands, console, API, metrics,
reports, search page and site pages; while they run, while they are paused, after the end, and after another run."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tarrafa.frontier.messages import CollectionStatus
from tarrafa.testweb.world.hosts import World
from tests.contract.frontier_bodies import check_sums
from tests.journey.crawl_journey import Journey, a_journey, run_json, tarrafa
from tests.journey.test_console import Node
from tests.wait import block_until

pytestmark = pytest.mark.long
WORLD = World(seed=5, hosts=8, pages=300, changes=50.0)
NAMES = ("all", "some")
Numbers = dict[str, Any]


@dataclass
class Places:
    """Every place that shows numbers of a collection. Each method returns those that its place shows."""

    journey: Journey
    node: Node

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.node.address}{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def command(self, *arguments: str) -> Any:
        return run_json(*arguments, "--data", self.journey.data.root)

    def run(self, *arguments: str) -> str:
        done = tarrafa(*arguments, "--data", self.journey.data.root)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> Any:
        return self.command("status")

    def state(self, name: str) -> str:
        return str(_named(self.status()["collections"], name)["state"])

    def of_status(self, name: str) -> Numbers:
        return _of_overview(self.status(), name)

    def of_top(self, name: str) -> Numbers:
        return _of_overview(self.command("top", "--once"), name)

    def of_status_json(self, name: str) -> Numbers:
        return _of_frontier(_named(self.node.json("/status.json")["collections"], name))

    def of_console_json(self, name: str) -> Numbers:
        return _of_snapshot(_named(self.node.json("/console.json")["collections"], name))

    def of_api(self, name: str) -> Numbers:
        return _of_snapshot(self.node.json(f"/api/v1/collections/{name}")["collection"])

    def of_status_page(self, name: str) -> Numbers:
        row = _row(self.text("/status?hl=en"), name)
        return dict(zip(("pages", "pages_per_s", "known", "queue", "failed", "hosts"), row, strict=True))

    def of_console_overview(self, name: str) -> Numbers:
        row = _row(self.text("/console?hl=en"), name)
        names = ("pages", "pages_per_s", "bytes_per_s", "queue", "known", "failed", "hosts")
        return dict(zip(names, row, strict=True))

    def of_collection_page(self, name: str) -> Numbers:
        text = self.text(f"/console/c/{name}?hl=en")
        tile = {title: _figures(rest) for title, rest in re.findall(r"<dt>([^<]+)</dt><dd>(.*?)</dd>", text, re.DOTALL)}
        found: Numbers = {
            "pages": tile["Pages"][0], "pages_per_s": tile["Pages/s"][0], "bytes_per_s": tile["Bytes/s"][0],
            "queue": tile["Queue"][0], "under way": tile["Queue"][1], "known": tile["Known URLs"][0],
            "dropped": tile["Known URLs"][1], "failed": tile["Failed"][0], "excluded": tile["Failed"][1],
            "hosts": tile["Hosts"][0], "visits": tile["Visits"][0], "requests": tile["Visits"][1],
            "searchable": tile["Searchable"][0], "not searchable": sum(tile["Searchable"][1:]),
        }  # fmt: skip
        cell = r'<td class="figure">([\d,]*)'
        rows = re.findall(rf'/console/c/{name}/status/(-?\d+)">.*?</th>{cell} .*?{cell}</td>', text)
        found["responses"] = {code: _int(visits) for code, visits, _ in rows if _int(visits)}
        found["refused"] = {code: _int(refused) for code, _, refused in rows if _int(refused)}
        return found

    def of_metrics(self, name: str) -> Numbers:
        series: dict[str, dict[str, float]] = {}
        for line in self.text("/metrics").splitlines():
            if found := re.fullmatch(rf'(tarrafa_\w+)\{{collection="{name}"(?:,\w+="([^"]+)")?\}} (\S+)', line):
                series.setdefault(found[1], {})[found[2] or ""] = float(found[3])
        urls = series["tarrafa_urls"]
        return {
            "pages": series["tarrafa_pages"][""], "visits": series["tarrafa_visits_total"][""],
            "requests": series["tarrafa_requests_total"][""], "bytes": series["tarrafa_received_bytes_total"][""],
            "queue": urls["pending"] + urls["handed_out"], "failed": urls["failed"], "excluded": urls["excluded"],
            "dropped": urls["dropped"], "known": sum(urls.values()), "under way": urls["handed_out"],
            "searchable": series["tarrafa_searchable_pages"][""],
            "not searchable": sum(series["tarrafa_unsearchable_pages"].values()),
            "responses": {code: count for code, count in series.get("tarrafa_responses_total", {}).items() if count},
            "refused": {code: count for code, count in series.get("tarrafa_refused_urls", {}).items() if count},
        }  # fmt: skip

    def of_report(self, name: str) -> Numbers:
        report = self.command("report", name)
        work, links = report["work"], report["links"]
        assert links["kept"] + links["no_longer_kept"] == sum(
            links[reason] for reason in ("indexed", "noindex", "taken_down", "waiting")
        )
        return {
            "pages": work["documents"], "visits": work["visits"], "requests": work["requests"], "bytes": work["bytes"],
            "known": links["discovered"], "queue": links["pending"], "failed": links["failed"],
            "excluded": links["excluded"], "dropped": links["dropped"], "searchable": links["indexed"],
            "not searchable": links["kept"] - links["indexed"],
            "responses": {str(one["status"]): one["count"] for one in report["responses"]},
            "refused": {str(one["status"]): one["count"] for one in report["unvisited"]},
        }  # fmt: skip

    def all(self, name: str) -> dict[str, Numbers]:
        return {place: getattr(self, place)(name) for place in dir(self) if place.startswith("of_")}

    def is_ranked(self, site: str) -> bool:
        """The link graph was ranked after the last visit to a site."""
        kept = [url for url in self.journey.kept("some") if site.removeprefix("http://") in url]
        found = self.node.json(f"/site.json?name={site}")["by_collection"]
        return all(one["fetched"] >= len(kept) for one in found)

    def is_still(self) -> bool:
        """Nothing is under way, and the index, and the console's last look at it, are up to date."""
        status = self.status()
        seen = self.node.json("/console.json")["collections"]
        return (
            not any(one["handed_out"] for one in status["collections"])
            and not status["index"]["behind_bytes"]
            and {one["name"]: one["pages"] for one in seen} == {one["collection"]: one for one in status["pages"]}
            and all(one["sample"].get("visits") == one["status"]["visits"] for one in seen)
        )


def _named(rows: list[Any], name: str) -> Any:
    return next(row for row in rows if row["name"] == name)


def _of_frontier(one: Any) -> Numbers:
    check_sums(CollectionStatus(**one))
    responses = Counter(one["statuses"])
    responses.subtract(one["refused"])
    return {
        "pages": one["fetched"], "pages_per_s": one["pages_per_s"], "known": one["known"],
        "queue": one["pending"] + one["handed_out"], "under way": one["handed_out"], "failed": one["failed"],
        "excluded": one["excluded"], "hosts": one["hosts"], "visits": one["visits"], "requests": one["requests"],
        "bytes": one["bytes"], "dropped": one["dropped"], "refused": one["refused"],
        "responses": {code: count for code, count in responses.items() if count},
    }  # fmt: skip


def _of_pages(pages: Any) -> Numbers:
    reasons = sum(pages[reason] for reason in ("noindex", "taken_down", "waiting", "elsewhere"))
    assert pages["kept"] + pages["no_longer_kept"] == pages["searchable"] + reasons
    return {"searchable": pages["searchable"], "not searchable": reasons}


def _of_overview(found: Any, name: str) -> Numbers:
    pages = next(one for one in found["pages"] if one["collection"] == name)
    return _of_frontier(_named(found["collections"], name)) | _of_pages(pages)


def _of_snapshot(one: Any) -> Numbers:
    rates = {"pages_per_s": one["sample"]["pages_per_s"], "bytes_per_s": one["sample"]["bytes_per_s"]}
    shown = {
        "responses": {str(row["status"]): row["count"] for row in one["statuses"] if row["count"]},
        "refused": {str(row["status"]): row["refused"] for row in one["statuses"] if row["refused"]},
    }
    return _of_frontier(one["status"]) | rates | shown | _of_pages(one["pages"])


def _row(text: str, name: str) -> list[float]:
    row = re.search(rf'<tr[^>]*><th scope="row">(?:<a[^>]*>)?{name}<.*?</tr>', text, re.DOTALL)
    assert row is not None, text
    return [_figures(cell)[0] for cell in re.findall(r'<td class="figure">(.*?)</td>', row[0])]


def _figures(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,.]*", re.sub(r"<[^>]+>", " ", text))]


def _int(text: str) -> int:
    return int(text.replace(",", "") or 0)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    folder: Path = tmp_path_factory.mktemp("numbers")
    journey = a_journey(folder, WORLD)
    with journey.web:
        node = Node(journey.data.root)
        try:
            yield Places(journey, node)
        finally:
            node.end()


def assert_agree(places: Places) -> None:
    """Every two places agree on every number that both show."""
    for name in NAMES:
        found = places.all(name)
        first = {key: (place, value) for place, numbers in reversed(found.items()) for key, value in numbers.items()}
        for place, numbers in found.items():
            for key, value in numbers.items():
                assert value == first[key][1], f"{name}: {key} in {place} and in {first[key][0]}"


def test_every_place_shows_the_same_numbers(places: Places) -> None:
    _start(places)
    _while_running(places)
    _while_paused(places)
    _after_the_end(places)
    _pages_that_can_be_searched(places)
    _after_a_takedown(places)
    _after_another_run(places)


def _add(places: Places, delay_s: float) -> None:
    """Add both collections, or change their delay."""
    journey = places.journey
    journey.delay_s = delay_s
    journey.roots = [WORLD.root(1), "http://127.0.0.1:9/"]  # nobody answers there
    journey.network = f'allow_private = true\nconnect_to = {{"*.test" = "{journey.web.connect_to}"}}'
    journey.sections = "[fetch]\nretries = 1\n"
    files = [journey.write_collection("all", 'hosts = ["*.test", "127.0.0.1"]')]
    journey.roots = [WORLD.root(2)]
    files.append(journey.write_collection("some", f'hosts = ["{WORLD.host(2).name}", "{WORLD.host(3).name}"]'))
    for file in files:
        places.run("add", str(file))


def _start(places: Places) -> None:
    _add(places, 1.0)
    for name in NAMES:
        places.run("start", name)


def _while_running(places: Places) -> None:
    """Each look is later than the one before: numbers that only grow are between those before and after."""
    block_until(lambda: all(places.of_status(name)["pages"] > 10 for name in NAMES), "pages")
    for name in NAMES:
        before = places.of_status(name)
        for place, between in places.all(name).items():
            after = places.of_status(name)
            for key in ("visits", "requests", "known"):
                if key in between and place != "of_report":  # the archive is ahead of the frontier
                    late = place.startswith(("of_console", "of_collection", "of_api", "of_metrics"))  # by a second
                    assert (0 if late else before[key]) <= between[key] <= after[key], (place, key)


def _while_paused(places: Places) -> None:
    places.run("pause", "all")
    if places.state("some") == "running":
        places.run("pause", "some")
    block_until(places.is_still, "nothing is under way")
    assert places.of_status("all")["queue"] > 0, "there was something left to pause"
    assert places.of_console_json("all")["bytes_per_s"] == places.of_console_json("all")["pages_per_s"] == 0
    assert_agree(places)


def _after_the_end(places: Places) -> None:
    _add(places, 0.02)
    for name in NAMES:
        if places.state(name) == "paused":
            places.run("resume", name)
    block_until(lambda: {places.state(name) for name in NAMES} == {"finished"}, "the end", seconds=200)
    block_until(places.is_still)
    assert_agree(places)
    found = places.of_status("all")
    assert found["failed"] == 1
    assert found["not searchable"] > 0, "some pages say noindex"
    for name in NAMES:
        (run,) = places.node.json(f"/api/v1/collections/{name}/runs")
        numbers = places.of_status(name)
        assert [run[key] for key in ("pages", "visits", "requests")] == [
            numbers[key] for key in ("pages", "visits", "requests")
        ]


def _pages_that_can_be_searched(places: Places) -> None:
    """A URL in two collections is one page; a site is told by one collection, and the others beside it."""
    index = places.status()["index"]
    home = re.search(r"([\d,]+) pages can be searched", places.text("/?hl=en"))
    assert home is not None
    searchable = {name: places.of_status(name)["searchable"] for name in NAMES}
    both = set(places.journey.kept("all")) & set(places.journey.kept("some"))
    assert both
    assert _int(home[1]) == index["urls"] < index["documents"] == sum(searchable.values())
    for name in (WORLD.host(2).name, f"http://{WORLD.host(3).name}"):
        block_until(partial(places.is_ranked, name), "another ranking")
        found = places.node.json(f"/site.json?name={name}")
        assert found["indexed"] == places.command("site", name)["indexed"]
        assert {one["collection"] for one in found["by_collection"]} == set(NAMES)
        for one in found["by_collection"]:
            alone = places.node.json(f"/site.json?name={name}&collection={one['collection']}")
            for key in ("known", "visited", "fetched", "indexed"):
                assert alone[key] == one[key]
            assert one["indexed"] <= one["fetched"] <= one["visited"] <= one["known"]
        assert found["indexed"] <= found["fetched"]


def _after_a_takedown(places: Places) -> None:
    before = {name: places.of_status(name) for name in NAMES}
    (url, *_) = sorted(set(places.journey.kept("all")) & set(places.journey.kept("some")))
    places.run("takedown", "add", url)

    def is_applied() -> bool:
        return all(one["taken_down"] for one in places.status()["pages"])

    block_until(is_applied, "the takedown")
    block_until(places.is_still)
    assert_agree(places)
    for name in NAMES:
        assert places.of_status(name)["pages"] == before[name]["pages"]
    assert "1 was taken down" in places.run("status")
    assert "1 was taken down" in places.text("/console/c/some?hl=en")
    assert "1 foi retirada do ar aqui" in places.text("/console/c/some?hl=pt")
    places.run("takedown", "lift", url)


def _after_another_run(places: Places) -> None:
    places.run("start", "some")

    def is_over() -> bool:
        some = _named(places.status()["collections"], "some")
        return bool(some["run"] == 2 and some["state"] == "finished")

    block_until(is_over, "another run", seconds=200)
    block_until(places.is_still)
    block_until(lambda: places.node.json("/api/v1/collections/some/runs")[0].get("ended"))
    assert_agree(places)
    one = _named(places.status()["collections"], "some")
    last, first = places.node.json("/api/v1/collections/some/runs")
    assert last["visits"] + first["visits"] == one["visits"]
    assert last["requests"] + first["requests"] == one["requests"]
    assert last["pages"] == one["fetched"] - one["earlier"]
    assert json.loads(places.text("/console/c/some.json"))["runs"] == [last, first]
