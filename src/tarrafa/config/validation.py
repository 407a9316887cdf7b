"""Validation of a collection, from a table or from its stored form: lists every error with its section and key.

msgspec finds unknown keys and wrong types; `explain_error` says so in the words of people who write configuration
files. The rules for values follow, section by section. A broken rule gives a message, which begins with the location:
`[section] key`. An error has the same words wherever the table came from.
"""

import re
from collections.abc import Iterable, Iterator, Sized
from itertools import islice
from typing import Any, get_args

import msgspec

from tarrafa.config.formats import (
    COLLECTION_NAME,
    EMAIL,
    HOST_PATTERN,
    MIME,
    NUMBER_MAX,
    PROXY,
    RETENTION,
    USER_AGENT,
    ByteSize,
    Seconds,
    decode_quantity,
    encode_quantity,
    has_contact,
    is_address_port,
    is_http_url,
    is_period,
    is_time_zone,
    parse_name_server,
    redact_url,
)
from tarrafa.config.sections import Collection, ScopeConfig, UrlScoreWeights
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message
from tarrafa.model import DATA_SYNTAXES

TABLE_MAX, CYCLE_MAX = 100_000, 10_000  # sites: one call may have to move a row for each
WEIGHT_MAX = 1e6  # scores stay far below the ranks of deferred URLs
PATTERNS_MAX = 1_000  # of one list
NAME_SERVERS_MAX = 8
REQUISITES_MAX, STEPS_MAX = 5_000, 10  # of one page
RENDER_S_MAX, PAGES_AT_ONCE_MAX = 600, 16  # a browser takes some 300 MB
KEY_CHARS_SHOWN = 80
COMPLAINTS_MAX = 100  # in one table
COMPLAINT_LOCATION = re.compile(r"(?:\[(?P<section>\w+)\] )?(?P<key>\w+(?:\.\w+)?)?")
NESTED_KEYS = {f"weights.{field.name}" for field in msgspec.structs.fields(UrlScoreWeights)}
ERROR_PATH = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
EXPECTED = re.compile(r"Expected `(.+?)(?: \| null)?`, got `(\w+)`$")
INVALID_CHOICE = re.compile(r"Invalid enum value (.+)$")
EXPECTED_MESSAGES = {
    "int": message("expected a whole number such as 10, got {got}"),
    "float": message("expected a number such as 1.5, got {got}"),
    "bool": message("expected true or false, got {got}"),
    "array": message('expected a list such as ["a", "b"], got {got}'),
    "object": message("expected a table, got {got}"),
    "str": message("expected a text in quotation marks, got {got}"),
}
SECRET_KEYS = frozenset({"webhook", "proxy"})  # keys whose values may hold secrets
NAME_MISSING = message("name is missing")
UNKNOWN_KEY = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")

_STORED_DECODER = msgspec.json.Decoder(Collection, dec_hook=decode_quantity)


class Complaint(msgspec.Struct, frozen=True):
    """One error, with its section and key. Without `key` it is about the section or the whole table."""

    section: str
    key: str
    message: Message | str


def validate_table(table: dict[str, Any]) -> tuple[Collection | None, list[Complaint]]:
    """All errors of a table: the first error of each key, then the broken rules; and the collection without the keys of
    wrong types. None if too much is wrong.
    """
    rest = {key: dict(value) if isinstance(value, dict) else value for key, value in table.items()}
    found: list[Complaint] = []
    while len(found) < COMPLAINTS_MAX:
        try:
            collection = msgspec.convert(rest, Collection, dec_hook=decode_quantity)
        except msgspec.ValidationError as error:
            found.append(_remove_cause(rest, error))
            continue
        return collection, merge_complaints(found, map(complaint_from_message, find_complaints(collection)))
    return None, found


def collection_from_table(table: dict[str, Any], where: str) -> Collection:
    """A valid collection from a TOML or JSON table; `where` precedes the message of the first error."""
    collection, complaints = validate_table(table)
    if collection is None or complaints:
        raise ConfigError(message("{where}: {complaint}", where=where, complaint=complaints[0].message))
    return collection


def merge_complaints(found: list[Complaint], more: Iterable[Complaint]) -> list[Complaint]:
    """The complaints, and further ones about other keys."""
    named = {(one.section, one.key) for one in found}
    others = (one for one in more if (one.section, one.key) not in named)
    return [*found, *islice(others, max(0, COMPLAINTS_MAX - len(found)))]


def complaint_from_message(complaint: Message | str) -> Complaint:
    """Split the location from a message: `[section] key: what`, or `key: what`."""
    match = COMPLAINT_LOCATION.match(str(complaint))
    section, key = (match["section"] or "", match["key"] or "") if match else ("", "")
    sections = {field.name: field.type for field in msgspec.structs.fields(Collection)}
    holder = sections.get(section) if section else Collection
    keys = {field.name for field in msgspec.structs.fields(holder)} if holder is not None else set()
    first, _, second = key.partition(".")
    return Complaint(section, key if f"{first}.{second}" in NESTED_KEYS else first if first in keys else "", complaint)


def _remove_cause(rest: dict[str, Any], error: msgspec.ValidationError) -> Complaint:
    """msgspec's error; the wrong value is removed from the table, so that the next error can be found."""
    match = ERROR_PATH.match(str(error))
    assert match is not None
    steps = [step.partition("[")[0] for step in path_steps(match["path"])]
    complaint = explain_error(error, rest)
    if complaint == NAME_MISSING:
        rest["name"] = "a"
        return Complaint("", "name", complaint)
    held = rest
    for step in steps if UNKNOWN_KEY.match(match["what"]) else steps[:-1]:
        held[step] = held = dict(held[step])
    if UNKNOWN_KEY.match(match["what"]):
        known = {field.name for field in msgspec.structs.fields(type_at(steps))}
        steps.append(next(key for key in held if key not in known))
    del held[steps[-1]]
    section, key = (steps[0], ".".join(steps[1:])) if len(steps) > 1 else ("", steps[0])
    return Complaint(section, key[:KEY_CHARS_SHOWN], complaint)


def encode_collection(collection: Collection) -> bytes:
    """The collection as the frontier stores it."""
    return msgspec.json.encode(collection, enc_hook=encode_quantity)


def decode_collection(content: bytes) -> Collection:
    """Decode a stored collection. A million roots take a second: do not call it on an event loop then."""
    try:
        collection = _STORED_DECODER.decode(content)
        complaint = next(find_complaints(collection, is_stored=True), None)
    except msgspec.ValidationError as error:
        complaint = explain_error(error)
    if complaint is not None:
        raise ConfigError(message("{where}: {complaint}", where="stored collection", complaint=complaint))
    return collection


# -- rules -------------------------------------------------------------------------------------------------------------


def find_complaints(collection: Collection, *, is_stored: bool = False) -> Iterator[Message]:
    """The errors of a collection, in the order of the file. `is_stored`: it was accepted before, perhaps by an earlier
    version, so values that do not harm the crawl are accepted.
    """
    if not COLLECTION_NAME.fullmatch(collection.name):
        yield message(
            "name: {name!r} must begin with a-z or 0-9, and have only a-z, 0-9, '.', '_' and '-', at most 63 of them",
            name=collection.name,
        )
    yield from _scope(collection)
    yield from _politeness(collection)
    if not is_stored:
        yield from _contact(collection)
    sections = (_fetch, _requisites, _render, _strategy, _revisit, _archive, _schedule, _notify, _network)
    for section in sections:
        yield from section(collection)


def _within(place: str, value: float | None, low: float, high: float = NUMBER_MAX) -> Iterator[Message]:
    if value is None or low <= value <= high:
        return
    unit = "s" if isinstance(value, Seconds) else " bytes" if isinstance(value, ByteSize) else ""
    got = f"{value:g}{unit}"
    if value < low:
        yield message("{place} must be {low} or more, got {got}", place=place, low=f"{low:g}{unit}", got=got)
    else:
        yield message("{place} must be {high} at most, got {got}", place=place, high=f"{high:g}{unit}", got=got)


def _minimums(collection: Collection, section: str, **lows: float) -> Iterator[Message]:
    """Check numeric keys of a section, each with its minimum."""
    values = getattr(collection, section)
    for key, low in lows.items():
        yield from _within(f"[{section}] {key}", getattr(values, key), low)


def _host_patterns(place: str, patterns: Iterable[str]) -> Iterator[Message]:
    wrong = (pattern for pattern in patterns if not HOST_PATTERN.fullmatch(pattern))
    return (_no_pattern(place, pattern, "www.a.br, *.br, a.br:8080") for pattern in wrong)


def _url_patterns(place: str, patterns: Iterable[str], example: str) -> Iterator[Message]:
    return (_no_pattern(place, pattern, example) for pattern in patterns if not pattern.strip())


def _no_pattern(place: str, pattern: str, example: str) -> Message:
    return message(
        "{place}: {pattern!r} is no pattern such as {example}", place=place, pattern=pattern, example=example
    )


def _no_address(place: str, address: str, example: str) -> Message:
    return message(
        "{place}: {address!r} is no address such as {example}", place=place, address=address, example=example
    )


def _at_most(place: str, patterns: Sized) -> Iterator[Message]:
    if (count := len(patterns)) > PATTERNS_MAX:
        yield message(
            "{place}: {count} patterns are more than the {most} allowed", place=place, count=count, most=PATTERNS_MAX
        )


def _scope(collection: Collection) -> Iterator[Message]:
    scope = collection.scope
    yield from _minimums(collection, "scope", depth_max=0, pages_max=1, requests_max=1, size_max=1)
    yield from _minimums(collection, "scope", host_pages_max=1, site_hosts_max=1, copies_max=1, alike_max=1)
    if not scope.types:
        yield message("[scope] types must name at least one MIME type, such as text/html")
    for kind in scope.types:
        if not MIME.fullmatch(kind):
            yield message("[scope] types: {kind!r} is no MIME type such as text/html", kind=kind)
    yield from islice(_host_patterns("[scope] hosts", scope.hosts or ()), 1)  # there may be a million
    yield from _url_patterns("[scope] include", scope.include, "https://www.a.br/news/*")
    yield from _at_most("[scope] include", scope.include)
    yield from _structured(collection)


def _structured(collection: Collection) -> Iterator[Message]:
    """The keys that say which structured data count."""
    scope = collection.scope
    if scope.keep != "structured":
        for key in ("syntaxes", "vocabularies", "open_graph"):
            if getattr(scope, key) != getattr(ScopeConfig(), key):
                yield message('[scope] {key} belongs to keep = "structured": add that, or leave {key} out', key=key)
        return
    if not scope.syntaxes:
        yield message(
            "[scope] syntaxes must name at least one of {syntaxes}; without the key all of them count",
            syntaxes=", ".join(DATA_SYNTAXES),
        )
    if scope.open_graph and scope.vocabularies:
        yield message(
            "[scope] open_graph and vocabularies exclude each other: name og among the vocabularies, or leave one of "
            "them out"
        )
    elif scope.open_graph and "rdfa" not in scope.syntaxes:
        yield message(
            "[scope] open_graph: Open Graph is written as RDFa; add rdfa to syntaxes, or leave one of them out"
        )


def _politeness(collection: Collection) -> Iterator[Message]:
    politeness = collection.politeness
    yield from _minimums(collection, "politeness", delay=0)
    yield from _host_patterns("[politeness] delays", politeness.delays)
    for pattern, value in politeness.delays.items():
        yield from _within(f"[politeness] delays.{pattern}", value, 0, politeness.delay_max)
    yield from _at_most("[politeness] delays", politeness.delays)
    yield from _minimums(collection, "politeness", delay_max=politeness.delay, backoff=0, delay_factor=0)
    if not USER_AGENT.fullmatch(politeness.user_agent):
        yield message(
            "[politeness] user_agent: {user_agent!r} must begin with one word that robots.txt can "
            "name, such as Tarrafa, Tarrafa/1.0 or Tarrafa/1.0 (text)",
            user_agent=politeness.user_agent,
        )
    if not politeness.contact.isprintable():
        yield message("[politeness] contact must be one line of printable text")
    if not politeness.email.isprintable() or " " in politeness.email:
        yield message("[politeness] email must be one address, such as crawl@example.br")


def _contact(collection: Collection) -> Iterator[Message]:
    contact, email = collection.politeness.contact, collection.politeness.email
    if contact and contact.isprintable() and not has_contact(contact):
        yield message(
            "[politeness] contact: {contact!r} names neither a page nor an address where webmasters "
            "reach you, such as https://example.br/crawl or crawl@example.br",
            contact=contact,
        )
    if email and email.isprintable() and " " not in email and not EMAIL.fullmatch(email):
        yield _no_address("[politeness] email", email, "crawl@example.br")


def _fetch(collection: Collection) -> Iterator[Message]:
    fetch = collection.fetch
    slowest = min(fetch.bandwidth or NUMBER_MAX, fetch.host_bandwidth or NUMBER_MAX)
    largest = max(collection.scope.size_max, collection.requisites.size_max if collection.is_faithful else 0)
    if slowest * fetch.time_max < largest:
        yield message("[fetch] bandwidth and host_bandwidth must let a document of size_max pass within time_max")
    yield from _minimums(collection, "fetch", bandwidth=1000, host_bandwidth=1000)
    yield from _minimums(collection, "fetch", time_max=0.1, connect_timeout=0.1, stall_timeout=1)
    yield from _minimums(collection, "fetch", hosts_at_once=1, redirects_max=0, retries=0, host_failures_max=0)


def _strategy(collection: Collection) -> Iterator[Message]:
    strategy = collection.strategy
    yield from _host_patterns("[strategy] favour", strategy.favour)
    yield from _url_patterns("[strategy] penalise", strategy.penalise, "*/login*")
    yield from _at_most("[strategy] favour", strategy.favour)
    yield from _at_most("[strategy] penalise", strategy.penalise)
    yield from _within("[strategy] table_max", strategy.table_max, 1, TABLE_MAX)
    yield from _within("[strategy] cycle", strategy.cycle, 1, CYCLE_MAX)
    for name, weight in msgspec.structs.asdict(strategy.weights).items():
        yield from _within(f"[strategy] weights.{name}", weight, 0, WEIGHT_MAX)


def _requisites(collection: Collection) -> Iterator[Message]:
    requisites = collection.requisites
    yield from _within("[requisites] page_max", requisites.page_max, 1, REQUISITES_MAX)
    yield from _within("[requisites] steps_max", requisites.steps_max, 0, STEPS_MAX)
    yield from _minimums(collection, "requisites", size_max=1, again=0)
    if collection.is_faithful and collection.strategy.order == "breadth":
        yield message(
            '[scope] keep = "faithful" and [strategy] order = "breadth" exclude each other: breadth looks for sites, '
            "and sees a few pages of each; leave one of them out"
        )


def _render(collection: Collection) -> Iterator[Message]:
    render = collection.render
    yield from _host_patterns("[render] hosts", render.hosts or ())
    yield from _at_most("[render] hosts", render.hosts or ())
    yield from _within("[render] time_max", render.time_max, 1, RENDER_S_MAX)
    yield from _within("[render] pages_at_once", render.pages_at_once, 1, PAGES_AT_ONCE_MAX)


def _revisit(collection: Collection) -> Iterator[Message]:
    share = collection.revisit.share
    yield from _minimums(collection, "revisit", rate=1e-6)
    if not 0 < share <= 1:
        yield message("[revisit] share must be more than 0 and at most 1, got {share}", share=f"{share:g}")
    yield from _minimums(collection, "revisit", horizon=60, interval_min=0, grace=0)


def _archive(collection: Collection) -> Iterator[Message]:
    retention = collection.archive.retention
    if not RETENTION.fullmatch(retention):
        yield message(
            "[archive] retention: {retention!r} is none of all, last N, one per day, one per week, one per month,"
            " one per year",
            retention=retention,
        )


def _schedule(collection: Collection) -> Iterator[Message]:
    schedule = collection.schedule
    if not is_time_zone(schedule.timezone):
        yield message(
            "[schedule] timezone: {timezone!r} is no time zone such as America/Sao_Paulo or UTC",
            timezone=schedule.timezone,
        )
    if schedule.every and not is_period(schedule.every):
        yield message(
            "[schedule] every: {every!r} is no period such as daily, 7 days, 6 hours, or five fields "
            "as cron has them, such as 0 3 * * 1",
            every=schedule.every,
        )
    if schedule.every and collection.keeps_fresh:
        yield message(
            "[schedule] every and [revisit] exclude each other: a collection is visited again as a "
            "whole, or page by page; leave one of them out"
        )
    if schedule.every and collection.strategy.order == "breadth":
        yield message(
            "[schedule] every: pages found in the order breadth cannot be found again from the roots; use "
            "another order in [strategy]"
        )
    if schedule.start is not None and schedule.deadline is not None and schedule.deadline <= schedule.start:
        yield message("[schedule] deadline must be after start")


def _notify(collection: Collection) -> Iterator[Message]:
    notify = collection.notify
    if notify.webhook and not is_http_url(notify.webhook):
        webhook = redact_url(notify.webhook)
        yield message("[notify] webhook: {webhook!r} must be an http or https address", webhook=webhook)
    for address in notify.email:
        if not EMAIL.fullmatch(address):
            yield _no_address("[notify] email", address, "someone@example.br")
    yield from _minimums(collection, "notify", stalled=10)


def _network(collection: Collection) -> Iterator[Message]:
    network = collection.network
    for target in network.connect_to.values():
        if not is_address_port(target):
            yield message("[network] connect_to: {target!r} is no address:port such as 127.0.0.1:8090", target=target)
    if len(network.dns) > NAME_SERVERS_MAX:
        yield message(
            "[network] dns: {count} name servers are more than the {most} allowed",
            count=len(network.dns),
            most=NAME_SERVERS_MAX,
        )
    for text in network.dns:
        if parse_name_server(text) is None:
            yield _no_address("[network] dns", text, "9.9.9.9, 9.9.9.9:5353, [::1]:53")
    if network.proxy:
        yield from _proxy(collection)


def _proxy(collection: Collection) -> Iterator[Message]:
    network = collection.network
    if "@" in network.proxy:
        yield message(
            "[network] proxy: a password does not belong here: the configuration is archived and "
            "shown. Let the proxy know this machine by its address"
        )
    elif not PROXY.fullmatch(network.proxy):
        example = "http://proxy.example.br:3128 or socks5h://127.0.0.1:9050"
        yield _no_address("[network] proxy", network.proxy, example)
    if network.dns:
        yield message("[network] proxy and dns exclude each other: the proxy resolves the names; leave one of them out")
    if collection.politeness.per_ip:
        yield message(
            "[network] proxy: only the proxy knows which hosts share an address; add [politeness] per_ip = false"
        )
    if not network.allow_private:
        yield message(
            "[network] proxy: the addresses that the proxy connects to cannot be checked here. Make sure that it "
            "refuses private ones, and confirm that with allow_private = true"
        )


# -- types and keys, as msgspec finds them wrong -----------------------------------------------------------------------


def path_steps(path: str | None) -> list[str]:
    """The steps of a path such as `.scope.hosts[0]`. msgspec does not name free keys: `.politeness.delays[...]`."""
    return [step for step in (path or "").replace("[...]", "").split(".") if step]


def explain_error(error: msgspec.ValidationError, table: Any = None) -> Message:
    """msgspec's error with section and key in front, and with the wrong value if the `table` is given."""
    match = ERROR_PATH.match(str(error))
    assert match is not None
    what, steps = match["what"], path_steps(match["path"])
    if unknown := UNKNOWN_KEY.match(what):
        allowed = ", ".join(field.name for field in msgspec.structs.fields(type_at(steps)))
        section = f"[{steps[0]}] {''.join(f'{step}: ' for step in steps[1:])}" if steps else ""
        key = unknown["key"][:KEY_CHARS_SHOWN]
        return message("{section}unknown key {key!r} (allowed: {allowed})", section=section, key=key, allowed=allowed)
    if what.startswith("Object missing required field"):  # the only required field
        return NAME_MISSING
    place = f"[{steps[0]}] {'.'.join(steps[1:])}" if len(steps) > 1 else "".join(steps)
    complaint = _explain_value(error, what, steps, _written_value(table, match["path"] or ""))
    return message("{place}: {complaint}", place=place, complaint=complaint) if place else complaint


def _explain_value(error: msgspec.ValidationError, what: str, steps: list[str], written: str | None) -> Message:
    """The error of one value: in our own words for our own types, else msgspec's message."""
    cause = error.__cause__
    if isinstance(cause, ValueError) and cause.args and isinstance(cause.args[0], Message):
        return cause.args[0]
    if (expected := EXPECTED.match(what)) and expected[1] in EXPECTED_MESSAGES:
        return Message(EXPECTED_MESSAGES[expected[1]].text, {"got": written or expected[2]})
    if invalid := INVALID_CHOICE.match(what):
        allowed = ", ".join(get_args(type_at(steps)))
        return message("invalid enum value {value} (allowed: {allowed})", value=invalid[1], allowed=allowed)
    return Message("{what}", {"what": plain_message(what)})


def _written_value(table: Any, path: str) -> str | None:
    """The value at a path such as `.scope.hosts[0]`, as JSON, which is nearly TOML; None if it is unknown."""
    value, steps = table, re.findall(r"[^.\[\]]+", path)
    if not SECRET_KEYS.isdisjoint(steps):
        return None
    for step in steps:
        try:
            value = value[int(step) if isinstance(value, list | tuple) else step]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    if value is None or isinstance(value, bytes) or table is None:
        return None
    text = value.isoformat() if hasattr(value, "isoformat") else msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= KEY_CHARS_SHOWN else f"{text[:KEY_CHARS_SHOWN]}…"


def plain_message(what: str) -> str:
    """msgspec's message about a value, in the words of people who write configuration files."""
    what = what[0].lower() + what[1:].replace("`", "").replace(" | null", "")
    what = what.replace("expected int", "expected a whole number").replace("expected array", "expected a list")
    return what.replace("expected float", "expected a number").replace("expected object", "expected a table")


def type_at(steps: list[str]) -> Any:
    """The type of the value at this path."""
    holder: Any = Collection
    for step in steps:
        name = step.partition("[")[0]
        holder = next(field.type for field in msgspec.structs.fields(holder) if field.name == name)
        holder = get_args(holder)[0] if name != step else holder
    return holder
