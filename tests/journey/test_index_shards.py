"""An index in several parts, followed by several processes, one of them killed; and made again in other parts."""

import json
import os
import signal
import subprocess

import pytest

from tarrafa.index import shards
from tarrafa.index.follower import behind
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.world.hosts import World
from tests.index.test_index_shards import contents
from tests.journey.crawl_journey import a_journey, pids_of, tarrafa, wait_until_kept


def killed_once(process: "subprocess.Popen[str]", role: str) -> int:
    """Kill the process with that role, as soon as there is one."""
    while not (found := pids_of(process.pid, role)):
        assert process.poll() is None, process.communicate()[1]
    os.kill(found[0], signal.SIGKILL)
    return found[0]


@pytest.mark.long
def test_every_part_is_followed_and_any_follower_may_be_killed(tmp_path):
    journey = a_journey(tmp_path, World(seed=12, hosts=12, pages=300))
    with journey.web:
        process = journey.start(journey.write_collection(), "--index-shards", "3")
        wait_until_kept(journey, process, 30)
        first = killed_once(process, "--part 2-of-3")
        wait_until_kept(journey, process, 100)
        assert first not in pids_of(process.pid)
        said = process.communicate(timeout=300)[1]
        assert process.returncode == 0, said
    data = journey.data
    assert behind(data) == 0
    wanted = {
        record.url
        for record in journey.records()
        if record.page and record.outcome.kept and not record.page.robots.noindex
    }
    found = contents(data)
    assert {shown.url for shown in found} == wanted
    assert len([part for part in shards.parts(data) if (part.index / "text").is_dir()]) == 3
    assert Searcher.open(data).count_urls() == len(wanted)
    told = json.loads(tarrafa("status", "--data", data.root, "--json").stdout)
    assert told["index"] == {"shards": "3", "documents": len(wanted), "behind_bytes": 0, "settled": True}
    assert "pages in shards (3)" in tarrafa("status", "--data", data.root).stdout

    refused = tarrafa("crawl", journey.folder / "journey.toml", "--data", data.root, "--index-shards", "2")
    assert refused.returncode == 2
    assert "divided otherwise (3); `tarrafa rebuild index --shards 2`" in refused.stderr

    made = tarrafa("rebuild", "index", "--shards", "2", "--data", data.root)
    assert made.returncode == 0, made.stderr
    assert f"rebuilt from {len(journey.records()):,} visits" in made.stdout
    assert contents(data) == found
    question = SearchRequest("pescador rede", n=50)
    answer = json.loads(tarrafa("search", question.text, "--limit", "50", "--data", data.root, "--json").stdout)
    assert answer["total"] == Searcher.open(data).search(question).total
