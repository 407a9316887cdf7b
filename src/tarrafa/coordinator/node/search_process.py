"""The search process of a node: starts it and reads the address it listens on.

A node with the role `search` keeps a process (`tarrafa.server.internal.peer_server`) that answers from its index and
its archive whoever knows the coordinator's token. It listens where the coordinator can reach this machine: at the
address that the way to the coordinator begins at. Behind a translation of addresses, or a tunnel, nobody reaches it:
`searching` names it then, and a report says that its pages are not counted.
"""

from pathlib import Path

from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX, printable_text
from tarrafa.runtime.token import TOKEN_VARIABLE, Token

MODULE = "tarrafa.server.internal.peer_server"


def address_file(data: DataDirectory) -> Path:
    """Where the process writes its address, while it answers."""
    return data.run / "search.address"


def search_child(data: DataDirectory, host: str, token: Token) -> ChildProcess:
    child = ChildProcess.for_module(data, "search", MODULE, host=host, told=address_file(data))
    child.secrets = {TOKEN_VARIABLE: token.secret.decode()}
    return child


def search_address(data: DataDirectory) -> str:
    """Where it answers now; empty, if it does not."""
    try:
        with address_file(data).open("rb") as file:
            return printable_text(file.read(TEXT_CHARS_MAX).decode(errors="replace"))
    except OSError:
        return ""
