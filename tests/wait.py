"""Waits until a condition holds, and fails when it does not hold in time."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

WAIT_MAX_S = 60.0  # long, because tests share the machine with others; a test that passes never waits this long
LOOK_EVERY_S = 0.01


async def wait_until(
    condition: Callable[[], object | Awaitable[object]], what: str = "the condition", seconds: float = WAIT_MAX_S
) -> None:
    """Wait until the condition, a function or a coroutine function, returns something true."""
    until = time.monotonic() + seconds
    while True:
        found = condition()
        if await found if inspect.isawaitable(found) else found:
            return
        assert time.monotonic() < until, f"not so within {seconds:g} s: {what}"
        await asyncio.sleep(LOOK_EVERY_S)


def block_until(condition: Callable[[], object], what: str = "the condition", seconds: float = WAIT_MAX_S) -> None:
    """Wait until the condition returns something true, in a test that is not async."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not so within {seconds:g} s: {what}"
        time.sleep(LOOK_EVERY_S)
