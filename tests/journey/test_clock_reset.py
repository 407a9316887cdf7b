"""A machine whose clock was an hour ahead crawls on with true dates after `tarrafa frontier reset-clock`."""

import os
import time
from pathlib import Path

from tarrafa.archive.warc_reader import follow
from tarrafa.clock import CLOCK_VARIABLE, Clock, boottime
from tarrafa.frontier.store.database import open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.frontier.store.test_random_operations import broken
from tests.journey.crawl_journey import tarrafa
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web

HOUR_S, DELAY_S = 3_600.0, 0.3
HOSTS = [f"http://{name}.test/" for name in "ab"]
PAGES = [f"{host}{n}" for host in HOSTS for n in range(4)]


def answer(url: str, _: int) -> ScriptedResponse | None:
    if url.endswith("robots.txt"):
        return None
    said = links(*PAGES)
    return ScriptedResponse(said.body + url.encode(), headers=said.headers)


def archived(data: Path) -> list[VisitRecord]:
    return [one.record for one in follow(DataDirectory(data).archive, {}) if one.record is not None]


def test_after_a_reset_new_records_have_true_dates_and_no_host_waits_for_an_hour(tmp_path):
    data, began = tmp_path / "data", time.time()
    ahead = Clock(began + HOUR_S, boottime()).to_environment()
    with scripted_web(answer) as web:
        file = web.collection(tmp_path, HOSTS, scope="pages_max = 4", delay_s=DELAY_S)
        first = tarrafa("crawl", file, "--data", data, "--quiet", env=os.environ | {CLOCK_VARIABLE: ahead})
        assert first.returncode == 0, first.stderr
        early = archived(data)
        reset = tarrafa("frontier", "reset-clock", "--data", data)
        assert reset.returncode == 0, reset.stderr
        assert "its clock was set back by 3," in reset.stdout
        file.write_text(file.read_text().replace("pages_max = 4", ""))
        going_on = time.time()
        second = tarrafa("crawl", file, "--data", data, "--quiet")
        assert second.returncode == 0, second.stderr
        assert "behind the frontier's" not in second.stderr
        assert time.time() - going_on < HOUR_S / 10
        gaps = web.gaps()
    late = [record for record in archived(data) if record not in early]
    assert early
    assert all(record.outcome.at > began + HOUR_S for record in early)
    assert late
    assert all(going_on - 1 <= record.outcome.at <= time.time() for record in late)
    assert sorted(record.url for record in early + late) == sorted(HOSTS + PAGES), "each of them once"
    assert min(gaps.values()) >= DELAY_S - 0.01
    store = FrontierStore(open_database(str(data / "frontier.sqlite"), ""), Clock.real(), LeaseClock())
    assert broken(store) == {}
    store.db.connection.close()


def test_the_notice_about_a_clock_that_is_behind_names_the_command(tmp_path):
    data, ahead = tmp_path / "data", Clock(time.time() + HOUR_S, boottime()).to_environment()
    with scripted_web(answer) as web:
        file = web.collection(tmp_path, HOSTS)
        assert tarrafa("crawl", file, "--data", data, "-q", env=os.environ | {CLOCK_VARIABLE: ahead}).returncode == 0
        again = tarrafa("crawl", file, "--data", data)
    assert "behind the frontier's" in again.stdout + again.stderr
    assert "tarrafa frontier reset-clock" in again.stdout + again.stderr
