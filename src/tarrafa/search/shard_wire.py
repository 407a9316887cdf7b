"""Wire format of the Shard protocol between machines: msgpack over HTTP, with a version check.

    POST URL/shard/VERSION/METHOD    the arguments in msgpack; the result in msgpack, or a message and a code:
                                     400 the request, 401 the token, 409 the version, 413 too long, 503 the index

Promises: every method of `Shard` is known here by its own annotations, bounds included; a value that does not fit is
refused at either end before any other step. VERSION is made of these structs and of a sample of the text analysis, so
that two machines that would misunderstand each other report it. Knows nothing of sockets.
"""

import inspect
import json
import typing
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from xxhash import xxh3_64_hexdigest

from tarrafa.i18n import Message, Value, message
from tarrafa.index.text_analysis import readings
from tarrafa.search.request import Shard

PATH = "/shard"
CONTENT_TYPE = "application/x-msgpack"
REQUEST_BYTES_MAX = 1 << 20
RESPONSE_BYTES_MAX = 8 << 20
MESSAGE_CHARS_MAX = 300
MESSAGE_VALUES_MAX = 10
DECODE_ERRORS = (ValueError, RecursionError)  # errors of decoding foreign bytes
STATUS_BAD_QUERY, STATUS_WRONG_TOKEN, STATUS_OTHER_VERSION, STATUS_TOO_LONG, STATUS_INDEX_ERROR = (
    400,
    401,
    409,
    413,
    503,
)
ANALYSIS_SAMPLE = "as funções do guarda-chuva, libraries, Straße: 日本語 ½"


class ShardMethod:
    """One method of the Shard protocol, as sent over the network."""

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
encode = msgspec.msgpack.Encoder().encode

ShortText = Annotated[str, msgspec.Meta(max_length=MESSAGE_CHARS_MAX)]


class ShardReason(msgspec.Struct, frozen=True):
    """A `Message` from another machine, in bounds: few short values, and no messages inside it."""

    text: ShortText
    values: Annotated[dict[ShortText, ShortText | int | float], msgspec.Meta(max_length=MESSAGE_VALUES_MAX)] = {}


_decode_reason = msgspec.msgpack.Decoder(ShardReason | str).decode


def decode_reason(content: bytes) -> Message | str:
    """The reason that a shard gives for not answering."""
    reason = _decode_reason(content)
    if isinstance(reason, str):
        return one_line(reason)
    values: dict[str, Value] = {
        name: one_line(value) if isinstance(value, str) else value for name, value in reason.values.items()
    }
    received = Message(one_line(reason.text), values)
    str(received)  # raises ValueError where a value does not fit its place
    return received


def other_version(theirs: str) -> Message:
    return message(
        "it is another version of Tarrafa ({there} there, {here} here); install the same one on both machines",
        there=VERSION,
        here=one_line(theirs),
    )


def one_line(text: str) -> str:
    """A foreign message as one printable line."""
    return " ".join(text.split())[:MESSAGE_CHARS_MAX]
