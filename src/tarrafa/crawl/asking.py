"""What does the frontier know of a URL, wherever the frontier is?

Promises: asks the frontier at the address that is given; else whoever owns this directory's; else, while nothing runs,
reads its file. Any number of questions over one connection. It asks no other machine.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from tarrafa.data import DataDirectory
from tarrafa.errors import Unreachable
from tarrafa.frontier.address import Address, connect, local
from tarrafa.frontier.protocol import CollectionRow, Facts
from tarrafa.frontier.store.sqlite import read_facts
from tarrafa.parse.url import host_id, host_key, url_id

Ask = Callable[[str], Awaitable[tuple[Facts, list[CollectionRow]]]]


@asynccontextmanager
async def asking(data: DataDirectory, address: Address | None = None) -> AsyncIterator[Ask]:
    """A question to put: the facts of a canonical URL and of its host, and the collections."""
    if address is None:
        data.check_version()
    try:
        frontier = await connect(address or local(data))
    except Unreachable:  # nobody owns the file, so nothing runs
        if address is not None:
            raise

        async def read(url: str) -> tuple[Facts, list[CollectionRow]]:
            facts, rows = await asyncio.to_thread(read_facts, data.frontier, host_id(host_key(url)), url_id(url))
            return facts, [replace(row, state="not running") if row.state == "running" else row for row in rows]

        yield read
        return

    async def ask(url: str) -> tuple[Facts, list[CollectionRow]]:
        return await frontier.look_up(host_id(host_key(url)), url_id(url)), await frontier.collections()

    try:
        yield ask
    finally:
        await frontier.close()
