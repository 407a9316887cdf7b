"""What does a shard answer that is known to be away?

Promises: it is named, with one line that says why, and nobody is asked.
"""

from typing import NoReturn

from tarrafa.errors import ShardAway


class Missing:
    """The Protocol, without anybody behind it."""

    def __init__(self, name: str, why: str) -> None:
        self._name, self._why = name, why

    @property
    def name(self) -> str:
        return self._name

    def _away(self, *_: object, **__: object) -> NoReturn:
        raise ShardAway(self._why)

    documents = statistics = best = show = find = why = complete = alike = speaking = _away

    def close(self) -> None:
        """There is nothing to close."""
