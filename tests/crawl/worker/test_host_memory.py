"""Host memory: what sessions with a host have learned, as the frontier keeps it."""

import msgspec

from tarrafa.crawl.scope.traps import PAGES_REMEMBERED_MIN, TrapMemoryState
from tarrafa.crawl.worker.host_memory import HOSTILE_MAX, HostMemory
from tarrafa.frontier.store.leases import MEMORY_BYTES_MAX
from tarrafa.model import Visit
from tarrafa.parse.host_profile import UNSTORED_PAGES_MAX
from tests.parse.test_host_profile import post


def meet(memory: HostMemory, numbers: range) -> None:
    for number in numbers:
        page = memory.describe(post(number))
        memory.traps.check_page(page, Visit(1, 1, b"", page.url, 0, 0, 1))


def test_a_session_goes_on_with_what_the_last_one_learned():
    memory = HostMemory()
    meet(memory, range(8))
    content = memory.encode_if_changed(is_leaving=True, is_idle=True)
    assert content is not None
    assert HostMemory(content).describe(post(50)).template_spans
    assert not HostMemory().describe(post(50)).template_spans


def test_a_session_without_pages_keeps_what_was_stored():
    memory = HostMemory()
    meet(memory, range(8))
    content = memory.encode_if_changed(is_leaving=True, is_idle=True) or b""
    later = HostMemory(content)
    assert later.encode_if_changed(is_leaving=True, is_idle=True) is None
    later.count_hostile_page()
    again = later.encode_if_changed(is_leaving=True, is_idle=True) or b""
    assert HostMemory(again).describe(post(50)).template_spans


def test_a_busy_session_stores_its_memory_now_and_then():
    memory = HostMemory()
    written = []
    for number in range(3 * UNSTORED_PAGES_MAX):
        meet(memory, range(number, number + 1))
        written.append(memory.encode_if_changed(is_leaving=False, is_idle=False))
    kept = [content for content in written if content is not None]
    assert 2 <= len(kept) <= 3
    assert max(map(len, kept)) < MEMORY_BYTES_MAX
    assert HostMemory(kept[0]).traps.pages >= PAGES_REMEMBERED_MIN, "traps are stored with it"


def test_the_memory_of_another_version_is_begun_anew():
    for content in (msgspec.msgpack.encode(TrapMemoryState(pages=40)), b"m", b"\x92\xc4\x01a\xc4\x01b"):
        memory = HostMemory(content)
        assert not memory.describe(post(1)).template_spans
        assert memory.traps.pages == 0


def test_a_host_that_hurts_again_and_again_is_left_alone():
    memory = HostMemory()
    for _ in range(HOSTILE_MAX):
        assert not memory.is_hostile
        memory.count_hostile_page()
    content = memory.encode_if_changed(is_leaving=False, is_idle=True)
    assert content is not None
    assert HostMemory(content).is_hostile
    assert memory.encode_if_changed(is_leaving=True, is_idle=True) is None, "nothing new since"


def test_failed_attempts_to_read_robots_txt_elsewhere_are_counted_across_sessions():
    memory = HostMemory()
    assert [memory.count_borrow_attempt(), memory.count_borrow_attempt()] == [1, 2]
    content = memory.encode_if_changed(is_leaving=True, is_idle=False)
    assert content is not None
    later = HostMemory(content)
    assert later.count_borrow_attempt() == 3
    later.reset_borrow_attempts()
    assert later.count_borrow_attempt() == 1
