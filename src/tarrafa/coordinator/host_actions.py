"""Actions on a host: retry, forget, block and slow down.

Promises: it can be retried, forgotten, blocked and slowed down, whichever door the wish comes by. The last two are
edits of a collection, so that they have a version and can be taken back like any other; of two at once neither is
lost.
"""

from collections.abc import Callable
from typing import Literal, get_args

from msgspec.structs import replace

from tarrafa.config import Collection
from tarrafa.config.formats import Seconds, parse_duration
from tarrafa.coordinator.audit import LINES_PER_PAGE_MAX, AuditLine, AuditLog
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.crawl.scope.collection_loader import parse_root
from tarrafa.errors import ConfigError
from tarrafa.frontier.api import Frontier
from tarrafa.i18n import message
from tarrafa.parse.url import UrlIdentity, host_id, host_key, host_name

HostAction = Literal["retry", "block", "slow", "forget"]
HOST_ACTIONS: tuple[HostAction, ...] = get_args(HostAction)
URL_CHARS_MAX = 8_192
DEFAULT_DELAY = "10 s"
DELAY_CHARS_MAX = 40


class HostActions:
    """All hosts of a frontier. `frontier` gives it when it is there."""

    def __init__(self, coordinator: Coordinator, frontier: Callable[[], Frontier]) -> None:
        self._coordinator, self._frontier = coordinator, frontier

    async def act(self, url: str, action: HostAction, who: str, collection: str = "", delay: str = "") -> None:
        """`url` is canonical; `collection` is whose rules change by `block` and `slow`, `delay` a duration."""
        key = host_key(url)
        if action == "retry":
            await self._frontier().retry_host(host_id(key), key)
            await self._coordinator.actions.continue_all_with_more(who)
        elif action == "forget":
            await self._frontier().forget_host(host_id(key))
        elif action == "block":
            await self._coordinator.actions.amend(collection, lambda before: with_host_blocked(before, url), who)
        else:
            name = host_name(url)
            await self._coordinator.actions.amend(collection, lambda before: with_host_slowed(before, name, delay), who)


def last_forgotten(audit: AuditLog, url: str) -> AuditLine | None:
    """Who forgot its host last, and when; None where nobody did, as far as is remembered. It waits for the disk."""
    lines = audit.read(n=LINES_PER_PAGE_MAX, subject=host_key(url)).lines
    return next((line for line in lines if line.detail == "forget" and not line.refused), None)


def parse_url_or_host(typed: str) -> str:
    """What somebody typed as a canonical URL: a URL, or a host's name."""
    url = parse_root(typed.strip()[:URL_CHARS_MAX], UrlIdentity())
    if url is None:
        raise ConfigError(message("not an http(s) URL or a host name: {typed!r}", typed=typed[:200]))
    return url


def with_host_blocked(collection: Collection, url: str) -> Collection:
    """Without all of that host, by http and by https."""
    authority = url.split("/")[2]
    pattern = f"http*://{authority}/*"
    exclude = (*collection.scope.exclude, *([pattern] if pattern not in collection.scope.exclude else []))
    return replace(collection, scope=replace(collection.scope, exclude=exclude))


def with_host_slowed(collection: Collection, name: str, delay: str) -> Collection:
    """With at least that pause between two requests to a host."""
    try:
        seconds = parse_duration(delay.strip()[:DELAY_CHARS_MAX] or DEFAULT_DELAY)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    politeness = collection.politeness
    if not 0 <= seconds <= politeness.delay_max:
        most = f"{politeness.delay_max:g} s (its delay_max)"
        raise ConfigError(
            message(
                "{name}: a pause of 0 to {most} is possible, got {seconds} s",
                name=collection.name,
                most=most,
                seconds=f"{seconds:g}",
            )
        )
    delays = {**politeness.delays, name: Seconds(seconds)}
    return replace(collection, politeness=replace(politeness, delays=delays))
