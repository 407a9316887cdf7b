"""Host memory: what the sessions with one host have learned. Its lease brings it, its reports take it back.

It holds the traps of the host, the profile of its pages (template, name in titles, languages), how many pages were
hostile, how often its robots.txt could not be read on another host, and whether rendering gained anything.
Promises: bounded; what is unchanged is not stored again; while a session lasts, at most UNSTORED_PAGES_MAX pages of the
profile are lost by a kill. No I/O and no clock.
"""

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.scope.traps import DEFAULTS, TrapMemory
from tarrafa.model import Page

if TYPE_CHECKING:
    from tarrafa.parse.host_profile import HostProfile

HOSTILE_MAX, HOSTILE_SHARE = 3, 10  # a host with so many hostile pages, one in ten or more, is left alone


class HostMemoryState(msgspec.Struct, frozen=True, array_like=True):
    """A host memory as it is stored."""

    traps: bytes = b""
    profile: bytes = b""
    hostile: int = 0
    borrow_attempts: int = 0
    rendered: tuple[int, int] = (0, 0)  # pages that scripts gave text or links to, and pages that they did not


_decoder = msgspec.msgpack.Decoder(HostMemoryState)


class HostMemory:
    """The memory of one host."""

    def __init__(self, content: bytes = b"", scope: ScopeConfig = DEFAULTS, collection: int = 0) -> None:
        try:
            self._stored = _decoder.decode(content) if content else HostMemoryState()
        except msgspec.MsgspecError:  # written by another version
            self._stored = HostMemoryState()
        self.traps = TrapMemory(self._stored.traps, scope, collection)
        self._profile: HostProfile | None = None
        self._hostile, self._borrow_attempts = self._stored.hostile, self._stored.borrow_attempts
        self.rendered = self._stored.rendered

    def describe(self, page: Page) -> Page:
        """The page as the host's other pages explain it."""
        if self._profile is None:
            from tarrafa.parse.host_profile import HostProfile  # loaded with the parser

            self._profile = HostProfile(self._stored.profile)
        return self._profile.describe(page)

    def count_hostile_page(self) -> None:
        self._hostile += 1

    @property
    def is_hostile(self) -> bool:
        """Whether hostile pages are repeated, and more than a few among hundreds."""
        return self._hostile >= HOSTILE_MAX and self._hostile * HOSTILE_SHARE >= self.traps.pages

    def count_borrow_attempt(self) -> int:
        """Count a failed attempt to borrow another host for this host's robots.txt; returns the number so far."""
        self._borrow_attempts += 1
        return self._borrow_attempts

    def reset_borrow_attempts(self) -> None:
        self._borrow_attempts = 0

    def count_rendered_page(self, *, has_gained: bool) -> None:
        fruitful, fruitless = self.rendered
        self.rendered = (fruitful + has_gained, fruitless + (not has_gained))

    def encode_if_changed(self, *, is_leaving: bool, is_idle: bool) -> bytes | None:
        """The memory to store, if enough has changed. `is_leaving`: the session ends; `is_idle`: it has nothing left to
        visit at the moment."""
        before, now = self._stored, self._stored
        if self._profile is not None and self._profile.is_worth_storing(is_leaving=is_leaving):
            now = replace(now, profile=self._profile.encode())
        if now is not before or is_leaving or is_idle:
            traps = self.traps.encode_if_changed()
            now = replace(
                now,
                traps=now.traps if traps is None else traps,
                hostile=self._hostile,
                borrow_attempts=self._borrow_attempts,
                rendered=self.rendered,
            )
        if now == before:
            return None
        self._stored = now
        return msgspec.msgpack.encode(now)
