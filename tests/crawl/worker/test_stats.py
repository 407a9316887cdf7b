"""What a worker shows of its last second."""

from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.model import Outcome, Status, VisitRecord
from tarrafa.runtime.heartbeat import URL_CHARS_MAX, VISIT_SAMPLES_MAX


def a_record(
    number: int, status: int = 200, *, kept: bool = True, elapsed_s: float = 0.1, **more: object
) -> VisitRecord:
    outcome = Outcome(status, float(number), kept=kept, length=5, elapsed_s=elapsed_s, **more)  # type: ignore[arg-type]
    return VisitRecord("c", f"http://a.test/{number}", 1, 0, outcome)


def test_a_diary_counts_everything_and_shows_a_few():
    diary = WorkerStats()
    for number in range(20):
        diary.count_visit(a_record(number, elapsed_s=number % 7))
    diary.count_visit(a_record(20, 404, kept=False))
    diary.count_visit(a_record(21, Status.TOO_SLOW, kept=False, error="no answer\x1b"))
    diary.count_visit(a_record(22, Status.ROBOTS, kept=False, requested=False))
    diary.count_visit(a_record(23, 301, kept=False))
    newest, failures, slowest = diary.take_recent()
    assert (diary.visits, diary.pages) == (24, 20)
    assert [seen.url for seen in newest] == [f"http://a.test/{number}" for number in range(15, 20)]
    assert [(seen.status, seen.error) for seen in failures] == [(404, ""), (Status.TOO_SLOW, "no answer ")]
    assert [seen.elapsed_s for seen in slowest] == [6.0, 6.0, 5.0, 5.0, 5.0][:VISIT_SAMPLES_MAX]


def test_what_was_told_is_not_told_again_but_counts_go_on():
    diary = WorkerStats()
    diary.count_visit(a_record(1))
    diary.take_recent()
    assert diary.take_recent() == ((), (), ())
    assert diary.visits == 1


def test_a_url_of_any_length_is_cut():
    diary = WorkerStats()
    diary.count_visit(VisitRecord("c", "http://a.test/" + "x" * 50_000, 1, 0, Outcome(200, 1.0, kept=True)))
    assert len(diary.take_recent()[0][0].url) == URL_CHARS_MAX
