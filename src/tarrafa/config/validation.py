"""Validation rules for a collection, one table of checks per section.

One table of checks for each section, in the order of the file. A check is whether something is wrong, and the
sentence for it, which begins with the place: `[section] key`. `coordinator/field_texts/complaint_translations.py`
says each in Portuguese, too.
"""

import re
from collections.abc import Callable, Iterable, Iterator
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

TABLE_MAX, CYCLE_MAX = 100_000, 10_000  # sites: each is a row that one call may have to move
WEIGHT_MAX = 1e6  # scores stay far below the ranks of what is put off
PATTERNS_MAX = 1_000  # of one list
NAME_SERVERS_MAX = 8
Check = tuple[bool, str]


def find_complaints(collection: Collection) -> Iterator[str]:
    """What is wrong with it, the first thing first."""
    return _failed_checks(collection, (_name, _scope, _politeness, *_REST))


def find_complaints_in_stored(collection: Collection) -> Iterator[str]:
    """The same of one that was accepted once, perhaps by an earlier version: what does no harm to the crawl stays."""
    return _failed_checks(collection, (_name, _scope, _politeness_of_stored, *_REST))


def _failed_checks(collection: Collection, sections: Iterable[Callable[[Collection], list[Check]]]) -> Iterator[str]:
    return (sentence for section in sections for is_wrong, sentence in section(collection) if is_wrong)


def _within(place: str, value: float | None, low: float, high: float = NUMBER_MAX) -> Check:
    if value is None or low <= value <= high:
        return False, ""
    unit = "s" if isinstance(value, Seconds) else " bytes" if isinstance(value, ByteSize) else ""
    allowed = f"{low:g}{unit} or more" if value < low else f"{high:g}{unit} at most"
    return True, f"{place} must be {allowed}, got {value:g}{unit}"


def _check_minimums(collection: Collection, section: str, **lows: float) -> list[Check]:
    """Keys of a section that are numbers, each with the lowest that it may be."""
    values = getattr(collection, section)
    return [_within(f"[{section}] {key}", getattr(values, key), low) for key, low in lows.items()]


def _first_mismatch(kind: re.Pattern[str], texts: Iterable[str]) -> Iterator[str]:
    """The first that is not of that kind: there may be a million."""
    return islice((text for text in texts if kind.fullmatch(text) is None), 1)


def _name(collection: Collection) -> list[Check]:
    name = collection.name
    return [(not COLLECTION_NAME.fullmatch(name), f"name: {name!r} may hold a-z, 0-9, '.', '_' and '-' only")]


def _scope(collection: Collection) -> list[Check]:
    scope = collection.scope
    return [
        *_check_minimums(collection, "scope", depth_max=0, pages_max=1, requests_max=1, size_max=1),
        *_check_minimums(collection, "scope", host_pages_max=1, site_hosts_max=1, copies_max=1, alike_max=1),
        (not scope.types, "[scope] types must name at least one MIME type, such as text/html"),
        *[(not MIME.fullmatch(kind), f"[scope] types: {kind!r} is no MIME type such as text/html")
          for kind in scope.types],
        *[(True, f"[scope] hosts: {pattern!r} is no pattern such as www.a.br, *.br, a.br:8080")
          for pattern in _first_mismatch(HOST_PATTERN, scope.hosts or ())],
        *[(not pattern.strip(), f"[scope] include: {pattern!r} is no pattern such as https://www.a.br/news/*")
          for pattern in scope.include],
        (len(scope.include) > PATTERNS_MAX,
         f"[scope] include: {len(scope.include):,} patterns are more than the {PATTERNS_MAX:,} allowed"),
        (bool(scope.vocabularies) and scope.keep == "all",
         '[scope] vocabularies are those of keep = "structured": add it, or leave them out'),
    ]  # fmt: skip


def _politeness(collection: Collection) -> list[Check]:
    contact, email = collection.politeness.contact, collection.politeness.email
    return [
        *_politeness_of_stored(collection),
        (bool(contact) and contact.isprintable() and not has_contact(contact),
         f"[politeness] contact: {contact!r} names neither a page nor an address where webmasters reach you, "
         "such as https://example.br/crawl or crawl@example.br"),
        (bool(email) and email.isprintable() and " " not in email and not EMAIL.fullmatch(email),
         f"[politeness] email: {email!r} is no address such as crawl@example.br"),
    ]  # fmt: skip


def _politeness_of_stored(collection: Collection) -> list[Check]:
    politeness = collection.politeness
    return [
        *_check_minimums(collection, "politeness", delay=0),
        *[(not HOST_PATTERN.fullmatch(pattern),
           f"[politeness] delays: {pattern!r} is no pattern such as www.a.br, *.br, a.br:8080")
          for pattern in politeness.delays],
        *[_within(f"[politeness] delays.{pattern}", value, 0, politeness.delay_max)
          for pattern, value in politeness.delays.items()],
        (len(politeness.delays) > PATTERNS_MAX,
         f"[politeness] delays: {len(politeness.delays):,} patterns are more than the {PATTERNS_MAX:,} allowed"),
        *_check_minimums(collection, "politeness", delay_max=politeness.delay, backoff=0, delay_factor=0),
        (not USER_AGENT.fullmatch(politeness.user_agent),
         f"[politeness] user_agent: {politeness.user_agent!r} must begin with one word that robots.txt can name, "
         "such as Tarrafa, Tarrafa/1.0 or Tarrafa/1.0 (text)"),
        (not politeness.contact.isprintable(), "[politeness] contact must be one line of printable text"),
        (not politeness.email.isprintable() or " " in politeness.email,
         "[politeness] email must be one address, such as crawl@example.br"),
    ]  # fmt: skip


def _fetch(collection: Collection) -> list[Check]:
    fetch = collection.fetch
    slowest = min(fetch.bandwidth or NUMBER_MAX, fetch.host_bandwidth or NUMBER_MAX)
    return [
        (slowest * fetch.time_max < collection.scope.size_max,
         "[fetch] bandwidth and host_bandwidth must let a document of size_max pass within time_max"),
        *_check_minimums(collection, "fetch", bandwidth=1000, host_bandwidth=1000),
        *_check_minimums(collection, "fetch", time_max=0.1, connect_timeout=0.1, stall_timeout=1),
        *_check_minimums(collection, "fetch", hosts_at_once=1, redirects_max=0, retries=0, host_failures_max=0),
    ]  # fmt: skip


def _strategy(collection: Collection) -> list[Check]:
    strategy = collection.strategy
    return [
        *[(not HOST_PATTERN.fullmatch(pattern),
           f"[strategy] favour: {pattern!r} is no pattern such as www.a.br, *.br, a.br:8080")
          for pattern in strategy.favour],
        *[(not pattern.strip(), f"[strategy] penalise: {pattern!r} is no pattern such as */login*")
          for pattern in strategy.penalise],
        *[(len(patterns) > PATTERNS_MAX,
           f"[strategy] {key}: {len(patterns):,} patterns are more than the {PATTERNS_MAX:,} allowed")
          for key, patterns in (("favour", strategy.favour), ("penalise", strategy.penalise))],
        _within("[strategy] table_max", strategy.table_max, 1, TABLE_MAX),
        _within("[strategy] cycle", strategy.cycle, 1, CYCLE_MAX),
        *[_within(f"[strategy] weights.{name}", weight, 0, WEIGHT_MAX)
          for name, weight in msgspec.structs.asdict(strategy.weights).items()],
    ]  # fmt: skip


def _revisit(collection: Collection) -> list[Check]:
    share = collection.revisit.share
    return [
        *_check_minimums(collection, "revisit", rate=1e-6),
        (not 0 < share <= 1, f"[revisit] share must be more than 0 and at most 1, got {share:g}"),
        *_check_minimums(collection, "revisit", horizon=60, interval_min=0, grace=0),
    ]


def _schedule(collection: Collection) -> list[Check]:
    schedule, repeats = collection.schedule, bool(collection.schedule.every)
    return [
        (not is_time_zone(schedule.timezone),
         f"[schedule] timezone: {schedule.timezone!r} is no time zone such as America/Sao_Paulo or UTC"),
        (repeats and not is_period(schedule.every),
         f"[schedule] every: {schedule.every!r} is no period such as daily, 7 days, 6 hours, "
         "or five fields as cron has them, such as 0 3 * * 1"),
        (repeats and collection.keeps_fresh,
         "[schedule] every and [revisit] exclude each other: a collection is visited again as a whole, "
         "or page by page; leave one of them out"),
        (repeats and collection.strategy.order == "breadth",
         "[schedule] every: what was found in breadth cannot be found again from the roots; "
         "use another order in [strategy]"),
        (schedule.start is not None and schedule.deadline is not None and schedule.deadline <= schedule.start,
         "[schedule] deadline must be after start"),
    ]  # fmt: skip


def _notify(collection: Collection) -> list[Check]:
    notify = collection.notify
    return [
        (bool(notify.webhook) and not is_http_url(notify.webhook),
         f"[notify] webhook: {redact_url(notify.webhook)!r} must be an http or https address"),
        *[(not EMAIL.fullmatch(address), f"[notify] email: {address!r} is no address such as someone@example.br")
          for address in notify.email],
        *_check_minimums(collection, "notify", stalled=10),
    ]  # fmt: skip


def _network(collection: Collection) -> list[Check]:
    network, proxied = collection.network, bool(collection.network.proxy)
    return [
        *[
            (not is_address_port(target), f"[network] connect_to: {target!r} is no address:port such as 127.0.0.1:8090")
            for target in network.connect_to.values()
        ],
        (
            len(network.dns) > NAME_SERVERS_MAX,
            f"[network] dns: {len(network.dns)} name servers are more than the {NAME_SERVERS_MAX} allowed",
        ),
        *[
            (
                parse_name_server(text) is None,
                f"[network] dns: {text!r} is no address such as 9.9.9.9, 9.9.9.9:5353, [::1]:53",
            )
            for text in network.dns
        ],
        (
            "@" in network.proxy,
            "[network] proxy: a password does not belong here: the configuration is archived and shown. "
            "Let the proxy know this machine by its address",
        ),
        (
            proxied and "@" not in network.proxy and not PROXY.fullmatch(network.proxy),
            f"[network] proxy: {network.proxy!r} is no address such as http://proxy.example.br:3128 or "
            "socks5h://127.0.0.1:9050",
        ),
        (
            proxied and bool(network.dns),
            "[network] proxy and dns exclude each other: the proxy asks for names; leave one of them out",
        ),
        (
            proxied and collection.politeness.per_ip,
            "[network] proxy: only the proxy knows which hosts share an address; add [politeness] per_ip = false",
        ),
        (
            proxied and not network.allow_private,
            "[network] proxy: nobody here sees which addresses it connects to, so none can be refused. "
            "See that it keeps "
            "away from private ones, and say that you know: allow_private = true",
        ),
    ]


_REST = (_fetch, _strategy, _revisit, _schedule, _notify, _network)
