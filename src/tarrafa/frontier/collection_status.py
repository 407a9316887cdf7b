"""What the counts of a collection mean: is it exhausted, has it failed, how many pages and how much time are left.

Expected pages and time left (ETA) follow from the current counts, as if nothing more were discovered.
"""

from msgspec.structs import replace

from tarrafa.errors import FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.i18n import Message, joined, message, messages
from tarrafa.model import GIVEN_UP, Status, status_name

ROOT_FAILURES = GIVEN_UP | {Status.NAME_UNKNOWN, Status.ROBOTS, Status.REDIRECTS_EXCEEDED}


def is_exhausted(status: CollectionStatus) -> bool:
    """Whether no visit is handed out, and no further visit may or can be handed out."""
    if status.handed_out:
        return False
    if status.keeps_fresh:
        return _is_request_limit_reached(status) or not (status.pending or status.fetched)
    return _is_page_limit_reached(status) or _is_request_limit_reached(status) or not status.pending


def _is_page_limit_reached(status: CollectionStatus) -> bool:
    """Whether this run has fetched its maximum of pages, with their requisites; pages of earlier runs do not count."""
    if status.requisites_queue:
        return False
    return status.pages_max is not None and status.kept_by_run >= status.pages_max


def _is_request_limit_reached(status: CollectionStatus) -> bool:
    return status.requests_max is not None and status.requests - status.requests_before >= status.requests_max


def has_failed(status: CollectionStatus) -> bool:
    """Whether a finished collection has failed: its last run has visited everything that it knew, and got no page.
    Pages that the collection does not want (by type, language, data) are answers, too."""
    if status.state != "finished" or status.pending or status.fetched > status.earlier:
        return False
    return (status.earlier > 0 and not status.keeps_fresh) or _are_all_failures(status)


def shown_state(status: CollectionStatus) -> str:
    """The state for people."""
    return "failed" if has_failed(status) else status.state


def _are_all_failures(status: CollectionStatus) -> bool:
    """Whether no visit was answered with a page: the roots failed, and what they redirect to."""
    codes = [int(code) for code in status.statuses]
    return bool(codes) and all(code in ROOT_FAILURES or code >= 300 for code in codes)


def finish_reason(status: CollectionStatus) -> Message:
    if has_failed(replace(status, state="finished")):
        counts = sorted(status.statuses.items(), key=lambda item: -item[1])
        shown = [Message("{code} {meaning}", {"code": code, "meaning": status_name(int(code))}) for code, _ in counts]
        return message("no root could be fetched: {statuses}", statuses=joined(shown, ", "))
    if not _is_request_limit_reached(status) and not status.pending:
        if not status.sites_chosen:
            return message("everything in reach was visited")
        return messages(
            "every site in reach was visited; {count} of their URLs was passed over",
            "every site in reach was visited; {count} of their URLs were passed over",
            status.passed_over,
        )
    by_pages = not _is_request_limit_reached(status) and _is_page_limit_reached(status)
    name, limit = ("pages_max", status.pages_max) if by_pages else ("requests_max", status.requests_max)
    return message("{name} = {limit} was reached", name=name, limit=str(limit))


def expected_pages(status: CollectionStatus) -> int:
    """Number of pages that this run will have kept if nothing more is discovered."""
    settled = status.requisites - status.requisites_queue
    visited, kept = max(1, status.visits - settled), status.kept_by_run
    total = kept + round((status.queue - status.requisites_queue) * status.fetched / visited)
    return min(total, status.pages_max) if status.pages_max is not None else total


def time_left_s(status: CollectionStatus, pages_per_s: float) -> float | None:
    """Seconds until the end at that speed, 0 when the end is near; None: the end is unknown, or there is none."""
    if status.keeps_fresh:
        return None
    left = expected_pages(status) - status.kept_by_run
    if left <= 0 and not (status.pending or status.handed_out):
        return 0.0
    return max(0, left) / pages_per_s if pages_per_s > 0 else None


async def set_collection_state(
    frontier: Frontier, name: str, state: str, reason: Message | str, *, again: bool = False
) -> None:
    """Set the state of a collection; a finished one can only run. `again`: as another run."""
    before = next((one for one in (await frontier.overview()).collections if one.name == name), None)
    is_finished = before is not None and before.state == "finished"
    if before is not None and is_finished and state != "running":
        ended = "has failed" if has_failed(before) else "is finished"
        raise FrontierError(f"{name} {ended} already ({before.reason})")
    if again and is_finished:
        await frontier.begin_run(name, reason)
    else:
        await frontier.set_state(name, state, reason)
