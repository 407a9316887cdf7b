"""A verification beside a crawl, after its kill, and at its end has no false finding."""

from pathlib import Path

from tarrafa.crawl.verify.verification import Verification
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, kill_group, wait_until_kept


def assert_healthy(journey: Journey) -> int:
    with Verification(journey.data, deep=True) as verification:
        report = verification.run()
    assert report.findings == []
    return report.visits


def test_no_false_finding_while_a_crawl_runs_is_killed_and_goes_on(tmp_path: Path) -> None:
    journey = a_journey(tmp_path, World(hosts=12, pages=400))
    seen = list[int]()
    with journey.web:
        file = journey.write_collection()
        for goal in (15, 60):
            process = journey.start(file, "--workers", "2")
            wait_until_kept(journey, process, goal)
            seen.append(assert_healthy(journey))
            while len(set(seen)) < 2 * goal // 15 or seen[-1] < goal:
                seen.append(assert_healthy(journey))
                assert process.poll() is None
            kill_group(process)
            assert_healthy(journey)
        journey.crawl(file)
        assert assert_healthy(journey) >= 400
    assert len(set(seen)) > 3
