"""Bandwidth and memory: the token bucket, the memory budget, and transfers that are held back and go on."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.transfer_limits import HANDOVER_S, BandwidthLimiter, BodyMemory
from tarrafa.model import Status
from tests.fetch.raw_server import a_server
from tests.wait import wait_until


class Time:
    def __init__(self) -> None:
        self.now = 500.0

    def __call__(self) -> float:
        return self.now


def test_a_limiter_lets_the_burst_in_and_then_the_rate():
    time = Time()
    limiter = BandwidthLimiter(1_000.0, burst=500.0, clock=time)
    passed = 0
    for _ in range(10_000):
        if not limiter.wait_s():
            limiter.take(100)
            passed += 100
        time.now += 0.001
    assert 10_000 <= passed <= 10_000 + 500 + 100


def test_a_part_larger_than_the_bucket_passes_and_is_paid_for():
    time = Time()
    limiter = BandwidthLimiter(1_000.0, burst=0.0, clock=time)
    assert limiter.wait_s() == 0.0
    limiter.take(16_000)
    assert limiter.wait_s() == pytest.approx(16.0)
    time.now += 15.0
    assert limiter.wait_s() == pytest.approx(1.0)
    time.now += 1.0
    assert limiter.wait_s() == 0.0


def test_idle_time_saves_no_more_than_the_burst():
    time = Time()
    limiter = BandwidthLimiter(1_000.0, burst=200.0, clock=time)
    time.now += 3_600.0
    limiter.take(300)
    assert limiter.wait_s() == pytest.approx(0.1)


def test_a_limiter_without_a_rate_is_always_open():
    limiter = BandwidthLimiter(None)
    limiter.take(10**12)
    assert limiter.wait_s() == 0.0


class Holder:
    """An object with a body."""

    def __init__(self, size: int) -> None:
        self.body = bytes(size)


def filled(memory: BodyMemory, *sizes: int) -> list[Holder]:
    holders = [Holder(size) for size in sizes]
    for holder in holders:
        memory.take(len(holder.body))
    return holders


def test_a_full_memory_lets_only_the_largest_body_continue():
    memory = BodyMemory(100, Time())
    small, large, middle = filled(memory, 10, 60, 30)
    assert not memory.has_room(small, 1, [large, middle])
    assert not memory.has_room(middle, 1, [large, small])
    assert memory.has_room(large, 1, [small, middle])
    memory.release(large)
    assert memory.has_room(small, 1, [middle])


def test_when_the_largest_body_is_released_the_next_one_continues():
    memory = BodyMemory(50, Time())
    small, large, middle = filled(memory, 30, 60, 40)
    assert memory.has_room(large, 1, [small, middle])
    memory.release(large)
    assert not memory.has_room(small, 1, [middle])
    assert memory.has_room(middle, 1, [small])


def test_a_body_that_receives_nothing_gives_its_turn_away():
    time = Time()
    memory = BodyMemory(50, time)
    small, large = filled(memory, 10, 60)
    assert memory.has_room(large, 1, [])
    assert not memory.has_room(small, 1, [])
    time.now += HANDOVER_S
    assert memory.has_room(small, 1, [])
    assert not memory.has_room(large, 1, [])


async def with_servers(
    bodies: list[int],
    work: Callable[[HttpClient, list[FetchRequest]], Awaitable[list[FetchResponse]]],
    buffered_max: int = 10**9,
) -> tuple[list[FetchResponse], HttpClient]:
    """One server for each body size, all requests handed to `work`."""

    client = HttpClient(100, buffered_max=buffered_max)
    servers = [a_server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size) for size in bodies]
    places = [(await server.__aenter__()).place for server in servers]
    responses = await work(client, [FetchRequest("http://a.test/", [], place, size_max=10**9) for place in places])
    client.close()
    for server in servers:
        await server.__aexit__(None, None, None)
    return responses, client


async def all_at_once(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
    return await asyncio.wait_for(asyncio.gather(*(client.fetch(request) for request in requests)), 30)


async def test_transfers_that_share_a_limiter_share_its_rate():
    limiter = BandwidthLimiter(1_000_000.0, burst=0.0)

    brought: list[list[int]] = []  # by those who are not complete yet, each time that one is

    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        async def fetched(request: FetchRequest) -> FetchResponse:
            request.limiter = limiter
            response = await client.fetch(request)
            brought.append([len(transfer.body) for transfer in client._transfers.values()])
            return response

        return await asyncio.wait_for(asyncio.gather(*map(fetched, requests)), 30)

    responses, _ = await with_servers([50_000] * 6, work)
    assert [len(response.raw_body) for response in responses] == [50_000] * 6
    slowest = max(response.elapsed_s for response in responses)
    assert slowest >= (300_000 - 2 * 16_384) / 1_000_000  # one part may go in before the first debt, one last
    assert all(size > 50_000 / 3 for size in brought[0])  # and none of them waits for all others


async def test_a_host_has_its_own_rate():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].host_bandwidth = 200_000
        return await all_at_once(client, requests)

    (slow, fast, small), _ = await with_servers([80_000, 80_000, 1_000], work)
    assert slow.elapsed_s >= (80_000 - 20_000 - 2 * 16_384) / 200_000
    assert fast.elapsed_s < slow.elapsed_s
    assert {slow.status, fast.status, small.status} == {200}


async def test_a_small_document_does_not_wait_for_a_slow_limiter():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].host_bandwidth = 500  # if it did, it would be half a minute
        return await all_at_once(client, requests)

    assert (await with_servers([15_000], work))[0][0].elapsed_s < 20.0


async def test_memory_is_bounded_and_everybody_is_served_in_the_end():
    most = 0

    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        nonlocal most
        backpressure = client._backpressure
        admits = backpressure.admit

        def watched(transfer, size):
            nonlocal most
            admitted = admits(transfer, size)
            most = max(most, backpressure.memory.held)
            return admitted

        backpressure.admit = watched  # type: ignore[method-assign]
        return await all_at_once(client, requests)

    responses, client = await with_servers([400_000] * 12, work, buffered_max=200_000)
    assert [len(response.raw_body) for response in responses] == [400_000] * 12
    assert 200_000 < most <= 600_000
    assert client._backpressure.memory.held == 0


async def test_a_body_that_is_larger_than_all_memory_is_still_read():
    assert len((await with_servers([500_000], all_at_once, buffered_max=1))[0][0].raw_body) == 500_000


async def test_who_misses_a_time_limit_because_we_held_it_back_was_starved():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        for request in requests:
            request.limiter, request.time_max_s = (
                BandwidthLimiter(10_000.0),
                2.0,
            )  # by then something has come on any machine
        return await all_at_once(client, requests)

    (response,), client = await with_servers([500_000], work)
    assert response.status == Status.STARVED
    assert "held back" in str(response.error)
    assert 0 < len(response.raw_body) < 500_000
    assert client._backpressure.memory.held == 0


async def test_waiting_for_us_is_no_stall():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].limiter = BandwidthLimiter(40_000.0, burst=0.0)
        fetching = asyncio.create_task(client.fetch(requests[0]))
        await wait_until(lambda: client._backpressure._held)  # the server may take its time until then
        requests[0].stall_timeout_s = 0.2
        return [await asyncio.wait_for(fetching, 30)]

    (response,), _ = await with_servers([40_000], work)
    assert (response.status, len(response.raw_body)) == (200, 40_000)


async def test_a_body_that_turns_out_too_large_while_it_waits_is_cut():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].limiter, requests[0].size_max = BandwidthLimiter(500_000.0, burst=0.0), 30_000
        return await all_at_once(client, requests)

    (response,), client = await with_servers([200_000], work)
    assert response.status == Status.TOO_LARGE
    assert client._backpressure.memory.held == 0


async def test_one_that_is_cancelled_while_it_waits_makes_room_for_the_next():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].limiter = BandwidthLimiter(1.0, burst=0.0)  # never again
        waiting = asyncio.create_task(client.fetch(requests[0]))
        await wait_until(lambda: client._backpressure._held)
        other = asyncio.create_task(client.fetch(requests[1]))
        waiting.cancel()
        await asyncio.wait({waiting})
        return [await asyncio.wait_for(other, 30)]

    (response,), client = await with_servers([100_000, 100_000], work, buffered_max=10_000)
    assert len(response.raw_body) == 100_000
    assert client._backpressure.memory.held == 0


async def test_a_client_may_be_closed_while_transfers_wait():
    async def work(client: HttpClient, requests: list[FetchRequest]) -> list[FetchResponse]:
        requests[0].limiter = BandwidthLimiter(1.0, burst=0.0)
        waiting = asyncio.create_task(client.fetch(requests[0]))
        await wait_until(lambda: client._backpressure._held)
        client.close()
        waiting.cancel()
        await asyncio.wait({waiting})
        return []

    assert not (await with_servers([100_000], work))[1]._backpressure._held


async def test_the_end_of_a_body_without_a_length_is_noticed_after_the_wait():
    async with a_server(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 50_000) as server:  # then it closes
        client = HttpClient(10)
        request = FetchRequest("http://a.test/", [], server.place, limiter=BandwidthLimiter(500_000.0, burst=0.0))
        response = await client.fetch(request)
        client.close()
    assert (response.status, len(response.raw_body)) == (200, 50_000)


async def test_a_connection_is_used_again_after_its_transfer_was_held_back():
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000

    async with a_server(*[answer] * 3, keep=True) as server:
        client = HttpClient(10)
        limiter = BandwidthLimiter(1_000_000.0, burst=0.0)
        request = FetchRequest("http://a.test/", [], server.place, limiter=limiter)
        sizes = [len((await client.fetch(request)).raw_body) for _ in range(3)]
        client.close()
    assert sizes == [50_000] * 3
    assert server.connections == 1
