"""What a borrowed host is given back with."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarrafa.crawl.worker.borrowed_hosts import BorrowedHostFetch
from tarrafa.crawl.worker.politeness import BACKOFF_JITTER_MAX, BACKOFF_MAX_S
from tarrafa.fetch.http_message import FetchResponse, ResponseHead
from tarrafa.frontier.messages import HostLoan, HostReport, Lease
from tarrafa.parse.url import host_id
from tests.crawl.worker.session_harness import HOST, a_collection

NOW = 1_000.0


@pytest.mark.parametrize(
    ("failures", "retry_after", "rest_s"), [(0, "", 60.0), (2, "", 240.0), (0, "600", 600.0), (40, "", BACKOFF_MAX_S)]
)
async def test_a_busy_borrowed_host_gets_the_back_off_of_any_host(failures, retry_after, rest_s):
    returned: list[HostReport] = []

    class Lender:
        async def take_back(self, report: HostReport) -> None:
            returned.append(report)

    lease = Lease(host_id(HOST), HOST, 1, 1, 0.0, 0.0, 0.0, 0, None, [])
    own = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW), collection=a_collection(politeness={"backoff": 60}))
    borrowed = BorrowedHostFetch(lease, cast(Any, own), cast(Any, Lender()), cast(Any, None))
    head = ResponseHead(503, (("retry-after", retry_after),) if retry_after else ())
    await borrowed.give_back(
        "http://other.test/robots.txt", HostLoan(True, 0.0, failures=failures), FetchResponse(503, head)
    )
    (report,) = returned
    assert report.failures == failures + 1
    assert NOW + rest_s <= report.next_at <= NOW + min(BACKOFF_MAX_S, rest_s * BACKOFF_JITTER_MAX)
