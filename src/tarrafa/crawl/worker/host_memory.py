"""HostMemory: what sessions with one host have learned, kept by the frontier: traps, and the profile of its pages.

Promises: bounded; what is unchanged is not stored again; while a session lasts, at most UNSTORED_PAGES_MAX pages of the
profile are lost by a kill. The profile's code is loaded for the first page, after the first request was sent
(docs/decisions, 0267).
"""

from typing import TYPE_CHECKING

import msgspec

from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.scope.traps import DEFAULTS, TrapMemory
from tarrafa.model import Page

if TYPE_CHECKING:
    from tarrafa.parse.host_profile import HostProfile


class HostMemoryState(msgspec.Struct, frozen=True, array_like=True):
    """A host memory as it is stored."""

    traps: bytes = b""
    profile: bytes = b""


_decoder = msgspec.msgpack.Decoder(HostMemoryState)


class HostMemory:
    """The memory of one host, as its lease brings it and its reports take it back."""

    def __init__(self, content: bytes = b"", scope: ScopeConfig = DEFAULTS, collection: int = 0) -> None:
        try:
            self._stored = _decoder.decode(content) if content else HostMemoryState()
        except msgspec.MsgspecError:  # written by another version
            self._stored = HostMemoryState()
        self.traps = TrapMemory(self._stored.traps, scope, collection)
        self._profile: HostProfile | None = None

    def describe(self, page: Page) -> Page:
        """The page as the host's other pages explain it."""
        if self._profile is None:
            from tarrafa.parse.host_profile import HostProfile

            self._profile = HostProfile(self._stored.profile)
        return self._profile.describe(page)

    def encode_if_changed(self, *, is_leaving: bool, is_idle: bool) -> bytes | None:
        """The memory to store, if enough has changed. `is_leaving`: the session ends; `is_idle`: it has nothing left to
        visit at the moment."""
        profile = None
        if self._profile is not None and self._profile.is_worth_storing(is_leaving=is_leaving):
            profile = self._profile.encode()
        traps = self.traps.encode_if_changed() if profile is not None or is_leaving or is_idle else None
        if profile is None and traps is None:
            return None
        self._stored = HostMemoryState(
            self._stored.traps if traps is None else traps, self._stored.profile if profile is None else profile
        )
        return msgspec.msgpack.encode(self._stored)
