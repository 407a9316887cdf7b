"""Wire format of the Shard protocol between machines: msgpack over HTTP, with a version check.

    POST URL/shard/VERSION/METHOD    the arguments in msgpack; the result in msgpack, or a sentence and a code:
                                     400 the question, 401 the token, 409 the version, 413 too long, 503 the index

Promises: every method of `Shard` is known here by its own annotations, bounds included; what does not fit them is
refused before anything happens, at either end. VERSION is made of those shapes and of what words become, so that two
ends that would misunderstand each other say so instead.
Knows nothing of sockets.
"""

import inspect
import json
import typing
from collections.abc import Callable
from typing import Any

import msgspec
from xxhash import xxh3_64_hexdigest

from tarrafa.index.text_analysis import readings
from tarrafa.search.request import Shard

PATH = "/shard"
CONTENT_TYPE = "application/x-msgpack"
REQUEST_BYTES_MAX = 1 << 20
RESPONSE_BYTES_MAX = 8 << 20
MESSAGE_CHARS_MAX = 300
DECODE_ERRORS = (ValueError, RecursionError)  # what decoding raises on bytes that are none of ours
STATUS_BAD_QUERY, STATUS_WRONG_TOKEN, STATUS_OTHER_VERSION, STATUS_TOO_LONG, STATUS_INDEX_ERROR = (
    400,
    401,
    409,
    413,
    503,
)
ANALYSIS_SAMPLE = "as funções do guarda-chuva, libraries, Straße: 日本語 ½"


class ShardMethod:
    """One method of the Protocol, as it crosses the network."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(function, include_extras=True)
        returns: Any = hints.pop("return")
        names = [name for name in inspect.signature(function).parameters if name != "self"]
        arguments: Any = tuple[tuple(hints[name] for name in names)] if names else tuple[()]  # type: ignore[misc]
        self.shapes = msgspec.json.schema(tuple[arguments, returns])
        self.arguments = msgspec.msgpack.Decoder(arguments)
        self.result = msgspec.msgpack.Decoder(returns)


METHODS = {
    name: ShardMethod(member) for name, member in vars(Shard).items() if inspect.isfunction(member) and name[0] != "_"
}


def _version() -> str:
    said = [{name: method.shapes for name, method in METHODS.items()}, readings(ANALYSIS_SAMPLE)]
    return xxh3_64_hexdigest(json.dumps(said, sort_keys=True).encode())[:8]


VERSION = _version()
OTHER_VERSION = "it is another version of Tarrafa ({there} there, {here} here); install the same one on both machines"

encode = msgspec.msgpack.Encoder().encode
decode_message = msgspec.msgpack.Decoder(str).decode


def one_line(text: str) -> str:
    """What somebody else says, fit to be shown."""
    return " ".join(text.split())[:MESSAGE_CHARS_MAX]
