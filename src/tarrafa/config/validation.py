"""Validation rules for a collection, one table of checks per section.

The tables are in the order of the file. A check is a condition that is true if something is wrong, and the message for
it, which begins with the location: `[section] key`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sized
from itertools import islice

import msgspec

from tarrafa.config.formats import (
    COLLECTION_NAME,
    EMAIL,
    HOST_PATTERN,
    MIME,
    PROXY,
    USER_AGENT,
    has_contact,
    is_address_port,
    is_http_url,
    is_period,
    is_time_zone,
    parse_name_server,
)
from tarrafa.config.redaction import redact_url
from tarrafa.config.sections import Collection
from tarrafa.config.units import NUMBER_MAX, ByteSize, Seconds
from tarrafa.i18n import Message, message

TABLE_MAX, CYCLE_MAX = 100_000, 10_000  # sites: one call may have to move a row for each
WEIGHT_MAX = 1e6  # scores stay far below the ranks of deferred URLs
PATTERNS_MAX = 1_000  # of one list
NAME_SERVERS_MAX = 8
Check = tuple[bool, Message]
FINE = False, Message("")


def find_complaints(collection: Collection) -> Iterator[Message]:
    """The errors of a collection, in the order of the file."""
    return _failed_checks(collection, (_name, _scope, _politeness, *_REST))


def find_complaints_in_stored(collection: Collection) -> Iterator[Message]:
    """The errors of a collection that was accepted before, perhaps by an earlier version: values that do not harm the
    crawl are accepted.
    """
    return _failed_checks(collection, (_name, _scope, _politeness_of_stored, *_REST))


def _failed_checks(
    collection: Collection, sections: Iterable[Callable[[Collection], list[Check]]]
) -> Iterator[Message]:
    return (message for section in sections for is_wrong, message in section(collection) if is_wrong)


def _within(place: str, value: float | None, low: float, high: float = NUMBER_MAX) -> Check:
    if value is None or low <= value <= high:
        return FINE
    unit = "s" if isinstance(value, Seconds) else " bytes" if isinstance(value, ByteSize) else ""
    got = f"{value:g}{unit}"
    if value < low:
        return True, message("{place} must be {low} or more, got {got}", place=place, low=f"{low:g}{unit}", got=got)
    return True, message("{place} must be {high} at most, got {got}", place=place, high=f"{high:g}{unit}", got=got)


def _check_minimums(collection: Collection, section: str, **lows: float) -> list[Check]:
    """Checks of numeric keys of a section, each with its minimum."""
    values = getattr(collection, section)
    return [_within(f"[{section}] {key}", getattr(values, key), low) for key, low in lows.items()]


def _first_mismatch(kind: re.Pattern[str], texts: Iterable[str]) -> Iterator[str]:
    """The first text that does not match: there may be a million."""
    return islice((text for text in texts if kind.fullmatch(text) is None), 1)


def _no_pattern(place: str, pattern: str, example: str = "www.a.br, *.br, a.br:8080") -> Message:
    return message(
        "{place}: {pattern!r} is no pattern such as {example}", place=place, pattern=pattern, example=example
    )


def _no_address(place: str, address: str, example: str) -> Message:
    return message(
        "{place}: {address!r} is no address such as {example}", place=place, address=address, example=example
    )


def _too_many(place: str, patterns: Sized) -> Check:
    too_many = message(
        "{place}: {count} patterns are more than the {most} allowed",
        place=place,
        count=len(patterns),
        most=PATTERNS_MAX,
    )
    return len(patterns) > PATTERNS_MAX, too_many


def _name(collection: Collection) -> list[Check]:
    name = collection.name
    return [
        (
            not COLLECTION_NAME.fullmatch(name),
            message("name: {name!r} may hold a-z, 0-9, '.', '_' and '-' only", name=name),
        )
    ]


def _scope(collection: Collection) -> list[Check]:
    scope = collection.scope
    return [
        *_check_minimums(collection, "scope", depth_max=0, pages_max=1, requests_max=1, size_max=1),
        *_check_minimums(collection, "scope", host_pages_max=1, site_hosts_max=1, copies_max=1, alike_max=1),
        (not scope.types, message("[scope] types must name at least one MIME type, such as text/html")),
        *[
            (not MIME.fullmatch(kind), message("[scope] types: {kind!r} is no MIME type such as text/html", kind=kind))
            for kind in scope.types
        ],
        *[
            (
                True,
                _no_pattern("[scope] hosts", pattern),
            )
            for pattern in _first_mismatch(HOST_PATTERN, scope.hosts or ())
        ],
        *[
            (
                not pattern.strip(),
                _no_pattern("[scope] include", pattern, "https://www.a.br/news/*"),
            )
            for pattern in scope.include
        ],
        _too_many("[scope] include", scope.include),
        (
            bool(scope.vocabularies) and scope.keep == "all",
            message('[scope] vocabularies are those of keep = "structured": add it, or leave them out'),
        ),
    ]


def _politeness(collection: Collection) -> list[Check]:
    contact, email = collection.politeness.contact, collection.politeness.email
    return [
        *_politeness_of_stored(collection),
        (
            bool(contact) and contact.isprintable() and not has_contact(contact),
            message(
                "[politeness] contact: {contact!r} names neither a page nor an address where webmasters "
                "reach you, such as https://example.br/crawl or crawl@example.br",
                contact=contact,
            ),
        ),
        (
            bool(email) and email.isprintable() and " " not in email and not EMAIL.fullmatch(email),
            _no_address("[politeness] email", email, "crawl@example.br"),
        ),
    ]


def _politeness_of_stored(collection: Collection) -> list[Check]:
    politeness = collection.politeness
    return [
        *_check_minimums(collection, "politeness", delay=0),
        *[
            (
                not HOST_PATTERN.fullmatch(pattern),
                _no_pattern("[politeness] delays", pattern),
            )
            for pattern in politeness.delays
        ],
        *[
            _within(f"[politeness] delays.{pattern}", value, 0, politeness.delay_max)
            for pattern, value in politeness.delays.items()
        ],
        _too_many("[politeness] delays", politeness.delays),
        *_check_minimums(collection, "politeness", delay_max=politeness.delay, backoff=0, delay_factor=0),
        (
            not USER_AGENT.fullmatch(politeness.user_agent),
            message(
                "[politeness] user_agent: {user_agent!r} must begin with one word that robots.txt can "
                "name, such as Tarrafa, Tarrafa/1.0 or Tarrafa/1.0 (text)",
                user_agent=politeness.user_agent,
            ),
        ),
        (not politeness.contact.isprintable(), message("[politeness] contact must be one line of printable text")),
        (
            not politeness.email.isprintable() or " " in politeness.email,
            message("[politeness] email must be one address, such as crawl@example.br"),
        ),
    ]


def _fetch(collection: Collection) -> list[Check]:
    fetch = collection.fetch
    slowest = min(fetch.bandwidth or NUMBER_MAX, fetch.host_bandwidth or NUMBER_MAX)
    return [
        (
            slowest * fetch.time_max < collection.scope.size_max,
            message("[fetch] bandwidth and host_bandwidth must let a document of size_max pass within time_max"),
        ),
        *_check_minimums(collection, "fetch", bandwidth=1000, host_bandwidth=1000),
        *_check_minimums(collection, "fetch", time_max=0.1, connect_timeout=0.1, stall_timeout=1),
        *_check_minimums(collection, "fetch", hosts_at_once=1, redirects_max=0, retries=0, host_failures_max=0),
    ]


def _strategy(collection: Collection) -> list[Check]:
    strategy = collection.strategy
    return [
        *[
            (
                not HOST_PATTERN.fullmatch(pattern),
                _no_pattern("[strategy] favour", pattern),
            )
            for pattern in strategy.favour
        ],
        *[
            (
                not pattern.strip(),
                _no_pattern("[strategy] penalise", pattern, "*/login*"),
            )
            for pattern in strategy.penalise
        ],
        *[
            _too_many(f"[strategy] {key}", patterns)
            for key, patterns in (("favour", strategy.favour), ("penalise", strategy.penalise))
        ],
        _within("[strategy] table_max", strategy.table_max, 1, TABLE_MAX),
        _within("[strategy] cycle", strategy.cycle, 1, CYCLE_MAX),
        *[
            _within(f"[strategy] weights.{name}", weight, 0, WEIGHT_MAX)
            for name, weight in msgspec.structs.asdict(strategy.weights).items()
        ],
    ]


def _revisit(collection: Collection) -> list[Check]:
    share = collection.revisit.share
    return [
        *_check_minimums(collection, "revisit", rate=1e-6),
        (
            not 0 < share <= 1,
            message("[revisit] share must be more than 0 and at most 1, got {share}", share=f"{share:g}"),
        ),
        *_check_minimums(collection, "revisit", horizon=60, interval_min=0, grace=0),
    ]


def _schedule(collection: Collection) -> list[Check]:
    schedule, repeats = collection.schedule, bool(collection.schedule.every)
    return [
        (
            not is_time_zone(schedule.timezone),
            message(
                "[schedule] timezone: {timezone!r} is no time zone such as America/Sao_Paulo or UTC",
                timezone=schedule.timezone,
            ),
        ),
        (
            repeats and not is_period(schedule.every),
            message(
                "[schedule] every: {every!r} is no period such as daily, 7 days, 6 hours, or five fields "
                "as cron has them, such as 0 3 * * 1",
                every=schedule.every,
            ),
        ),
        (
            repeats and collection.keeps_fresh,
            message(
                "[schedule] every and [revisit] exclude each other: a collection is visited again as a "
                "whole, or page by page; leave one of them out"
            ),
        ),
        (
            repeats and collection.strategy.order == "breadth",
            message(
                "[schedule] every: what was found in breadth cannot be found again from the roots; use "
                "another order in [strategy]"
            ),
        ),
        (
            schedule.start is not None and schedule.deadline is not None and schedule.deadline <= schedule.start,
            message("[schedule] deadline must be after start"),
        ),
    ]


def _notify(collection: Collection) -> list[Check]:
    notify = collection.notify
    return [
        (
            bool(notify.webhook) and not is_http_url(notify.webhook),
            message(
                "[notify] webhook: {webhook!r} must be an http or https address", webhook=redact_url(notify.webhook)
            ),
        ),
        *[
            (
                not EMAIL.fullmatch(address),
                _no_address("[notify] email", address, "someone@example.br"),
            )
            for address in notify.email
        ],
        *_check_minimums(collection, "notify", stalled=10),
    ]


def _network(collection: Collection) -> list[Check]:
    network, proxied = collection.network, bool(collection.network.proxy)
    return [
        *[
            (
                not is_address_port(target),
                message("[network] connect_to: {target!r} is no address:port such as 127.0.0.1:8090", target=target),
            )
            for target in network.connect_to.values()
        ],
        (
            len(network.dns) > NAME_SERVERS_MAX,
            message(
                "[network] dns: {count} name servers are more than the {most} allowed",
                count=len(network.dns),
                most=NAME_SERVERS_MAX,
            ),
        ),
        *[
            (
                parse_name_server(text) is None,
                _no_address("[network] dns", text, "9.9.9.9, 9.9.9.9:5353, [::1]:53"),
            )
            for text in network.dns
        ],
        (
            "@" in network.proxy,
            message(
                "[network] proxy: a password does not belong here: the configuration is archived and "
                "shown. Let the proxy know this machine by its address"
            ),
        ),
        (
            proxied and "@" not in network.proxy and not PROXY.fullmatch(network.proxy),
            _no_address("[network] proxy", network.proxy, "http://proxy.example.br:3128 or socks5h://127.0.0.1:9050"),
        ),
        (
            proxied and bool(network.dns),
            message("[network] proxy and dns exclude each other: the proxy asks for names; leave one of them out"),
        ),
        (
            proxied and collection.politeness.per_ip,
            message(
                "[network] proxy: only the proxy knows which hosts share an address; add [politeness] per_ip = false"
            ),
        ),
        (
            proxied and not network.allow_private,
            message(
                "[network] proxy: nobody here sees which addresses it connects to, so none can be "
                "refused. See that it keeps away from private ones, and say that you know: allow_private "
                "= true"
            ),
        ),
    ]


_REST = (_fetch, _strategy, _revisit, _schedule, _notify, _network)
