"""Ports of this machine that are a test's own for as long as it needs them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


def reserve_port(host: str = "127.0.0.1") -> socket.socket:
    """Bound, and listened at by nobody: until it is closed nobody else is given its port, and whoever is told the
    number may listen there. A port that is looked for and let go again may be that of another test a moment later."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as all who listen do: so both may have it
    held.bind((host, 0))
    return held


@contextmanager
def reserved_port() -> Iterator[int]:
    """Its number."""
    with reserve_port() as held:
        yield int(held.getsockname()[1])
