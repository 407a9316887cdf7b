"""What does a shard answer that is known to be away?

Promises: it is named, with one line that says why, and nobody is asked.
"""

from typing import NoReturn

from tarrafa.errors import ShardUnavailable


class UnavailableShard:
    """The Protocol, without anybody behind it."""

    def __init__(self, name: str, why: str) -> None:
        self._name, self._why = name, why

    @property
    def name(self) -> str:
        return self._name

    def _away(self, *_: object, **__: object) -> NoReturn:
        raise ShardUnavailable(self._why)

    documents = statistics = top_matches = show = find_urls = explain_score = complete = similar_words = expansion_terms = _away

    def close(self) -> None:
        """There is nothing to close."""
