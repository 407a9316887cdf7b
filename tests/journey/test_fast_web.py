"""A Web that runs thousands of times as fast: what is believed of its pages, what is forecast, and what is true."""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tarrafa.clock import Clock
from tarrafa.frontier.messages import RevisitPage
from tarrafa.parse.url import url_id
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.simulate.collection_forecast import read_collection_pages
from tarrafa.testweb.http.web_process import start_process
from tarrafa.testweb.oracle import rate_of_url, reachable, version_of_url
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.resources import ResourceKind
from tests.journey.accelerated_month import BORN
from tests.journey.crawl_journey import tarrafa

SPEED = 5000
LEARNING_S, MEASURED_S = 50.0, 20.0
CHANGING = (ResourceKind.PAGE, ResourceKind.PRINT)
POINTS = 0.03


def collection_file(folder: Path, roots: list[str], connect_to: str) -> Path:
    path = folder / "fast.toml"
    path.write_text(f"""
name = "fast"
roots = {json.dumps(roots)}
[scope]
hosts = ["*.test"]
[politeness]
delay = 0.7
delay_factor = 0
[fetch]
sitemaps = false
feeds = false
[revisit]
interval_min = "1s"
weigh = "equal"
[network]
connect_to = {{"*.test" = "{connect_to}"}}
suffixes = ["br.test", "pt.test", "com.test"]
""")
    return path


class Truth:
    """What the Web knows about its pages. Its clock and ours differ; the crawl's times are ours."""

    def __init__(self, world: World, roots: list[str], clock: Clock) -> None:
        self._world, self._clock = world, clock
        reached = reachable(world, roots).values()
        self._urls = {url_id(one.url): one.url for one in reached if one.kind in CHANGING}

    def pages(self, pages: list[RevisitPage]) -> list[RevisitPage]:
        return [page for page in pages if page.id in self._urls]

    def is_fresh(self, page: RevisitPage, now: float) -> bool:
        """Whether the Web still says what the page's last visit found."""
        then, present = (
            version_of_url(self._world, self._urls[page.id], self._clock.now() - SPEED * (time.time() - at)).number
            for at in (page.history.last, now)
        )
        return then == present

    def fresh_probability(self, page: RevisitPage, now: float) -> float:
        """The same without chance: pages change by Poisson processes of these rates."""
        rate = SPEED * rate_of_url(self._world, self._urls[page.id]) / DAY_S
        return math.exp(-rate * max(0.0, now - page.history.last))


def test_beliefs_forecast_and_truth_agree_on_a_web_that_is_five_thousand_times_as_fast(tmp_path):
    world, clock = World(seed=7, hosts=10, pages=60), Clock.scaled(SPEED, BORN)
    roots, data = [world.root(number) for number in range(1, world.hosts + 1)], DataDirectory(tmp_path / "data")
    truth = Truth(world, roots, clock)
    web = start_process(world, clock=clock)
    command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl"]
    command += [str(collection_file(tmp_path, roots, web.connect_to)), "--data", str(data.root)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=os.environ)
    believed, true, seen = [], [], []
    explained: list[str] = []
    try:
        time.sleep(LEARNING_S)
        until = time.monotonic() + MEASURED_S
        while time.monotonic() < until:
            time.sleep(1.0)
            _, pages = read_collection_pages(data, "fast")
            now = time.time()
            known = truth.pages(pages)
            believed.append(statistics.mean(page.history.fresh_probability(now) for page in known))
            true.append(statistics.mean(truth.fresh_probability(page, now) for page in known))
            seen.append(statistics.mean(truth.is_fresh(page, now) for page in known))
        explained = [tarrafa("explain", root, "--data", data.root).stdout for root in roots]
        report = tarrafa("report", "fast", "--data", data.root, "--json").stdout
        forecast = json.loads(tarrafa("simulate", "--collection", "fast", "--data", data.root, "--json").stdout)
    finally:
        process.terminate()
        process.communicate(timeout=60)
        web.stop()
    assert all(" a day" in one for one in explained)
    for point in json.loads(report)["freshness"]["calibration"]:
        assert abs(point["expected"] - point["found"]) <= 0.05 + 2 / point["visits"] ** 0.5, point
    shares = [statistics.mean(share) for share in (believed, true, seen)]
    print(f"believed, true, seen: {shares}; forecast: {forecast['long_run']}")
    assert abs(shares[0] - shares[1]) <= POINTS
    assert abs(forecast["long_run"]["likely"] - shares[1]) <= POINTS
    assert abs(shares[2] - shares[1]) <= 3 * POINTS  # pages change by chance
