"""Reads and checks a simulation scenario file (TOML).

Promises: an unknown key, a wrong type or an impossible value is refused with the file, the section, the key and the
allowed values, before anything is simulated. All policies of a file run on the same Web, with the same changes.
Knows nothing of how a simulation runs; docs/simulate/example.toml shows every key.
"""

import csv
import math
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tarrafa.config.formats import NUMBER_MAX, ByteSize, Seconds, decode_quantity, parse_size, read_user_file
from tarrafa.config.validation import plain_message
from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate.change_process import ProcessName
from tarrafa.simulate.policy_controllers import PolicyName

DAYS_MAX = 3650.0
CRAWLERS_MAX, SERVERS_MAX, DOCUMENTS_MAX = 100_000, 100_000, 1_000_000
COLUMNS = ("server", "rate_per_day", "size", "importance")  # required columns of a documents file; optional ones:
COLUMN_PROCESS = "process"


class _ScenarioSection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class ScenarioRun(_ScenarioSection, frozen=True):
    """How the Web is crawled, and for how long."""

    days: float
    policy: PolicyName | tuple[PolicyName, ...] = "index"
    budget: float | None = None
    seed: int = 0
    learn: bool = True
    start: Literal["sweep", "fresh"] = "sweep"
    share: float = 0.5
    horizon: Seconds = Seconds(DAY_S)
    interval_min: Seconds = Seconds(0)
    statistic: Seconds = Seconds(DAY_S / 4)
    warmup: Seconds = Seconds(0)

    @property
    def policies(self) -> tuple[PolicyName, ...]:
        return self.policy if isinstance(self.policy, tuple) else (self.policy,)


class ScenarioCrawlers(_ScenarioSection, frozen=True):
    """A number of equal crawlers; speed in bytes per second, absent: no limit."""

    count: int = 1
    speed: ByteSize | None = None


class ScenarioServers(_ScenarioSection, frozen=True):
    """A number of equal servers under one name: documents of that name are distributed over them in turn."""

    name: str
    pause: Seconds
    count: int = 1
    speed: ByteSize | None = None
    pause_from: Literal["start", "end"] = "end"
    dates: bool = False


class ScenarioDocuments(_ScenarioSection, frozen=True):
    """A number of equal documents; either rate, in changes per day, or interval, the mean time between two changes."""

    server: str
    count: int = 1
    rate: float | None = None
    interval: Seconds | None = None
    size: ByteSize = ByteSize(10_000)
    importance: float = 1.0
    process: ProcessName = "poisson"

    @property
    def rate_per_s(self) -> float:
        return self.rate / DAY_S if self.rate is not None else 1.0 / (self.interval or math.inf)


class Scenario(_ScenarioSection, frozen=True):
    """A scenario file with its defaults filled in; it includes the documents of a documents file."""

    run: ScenarioRun
    servers: tuple[ScenarioServers, ...]
    crawlers: tuple[ScenarioCrawlers, ...] = (ScenarioCrawlers(),)
    documents: tuple[ScenarioDocuments, ...] = ()
    documents_file: str | None = None


def read_scenario(path: Path) -> Scenario:
    """Read the scenario of a file."""
    try:
        table = tomllib.loads(read_user_file(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    try:
        scenario = msgspec.convert(table, Scenario, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error))}") from None
    for is_wrong, message in _complaints(scenario):
        if is_wrong:
            raise ConfigError(f"{path}: {message}")
    if scenario.documents_file is not None:
        names = {server.name for server in scenario.servers}
        listed = path.parent / scenario.documents_file
        scenario = msgspec.structs.replace(
            scenario, documents=(*scenario.documents, *_read_documents_file(listed, names))
        )
    count = sum(group.count for group in scenario.documents)
    if not 1 <= count <= DOCUMENTS_MAX:
        raise ConfigError(f"{path}: documents must be 1 to {DOCUMENTS_MAX:,} in all, got {count:,}")
    if not any(group.importance for group in scenario.documents):
        raise ConfigError(f"{path}: importance must be above 0 for at least one document")
    return scenario


def _decode(kind: type, value: Any) -> Any:
    """Decode quantities as in collection files, but never below zero."""
    amount = decode_quantity(kind, value)
    if amount < 0:
        raise ValueError(f"expected 0 or more, got {amount:g}")
    return amount


def _read_documents_file(path: Path, servers: set[str]) -> Iterator[ScenarioDocuments]:
    """One document for each line of a CSV file."""
    rows = csv.DictReader(read_user_file(path).splitlines(), strict=True)
    given = tuple(rows.fieldnames or ())
    if given not in (COLUMNS, (*COLUMNS, COLUMN_PROCESS)):
        allowed = f"{','.join(COLUMNS)} and perhaps {COLUMN_PROCESS}"
        raise ConfigError(f"{path}:1: the columns must be {allowed}, got {','.join(given) or 'nothing'}")
    try:
        for row in rows:
            where = f"{path}:{rows.line_num}"
            if None in row or None in row.values():
                raise ConfigError(f"{where}: expected {len(given)} columns")
            yield _parse_document_line(row, servers, where)
    except csv.Error as error:
        raise ConfigError(f"{path}:{rows.reader.line_num}: not valid CSV: {error}") from None


def _parse_document_line(row: dict[str, str], servers: set[str], where: str) -> ScenarioDocuments:
    numbers = {}
    for column in ("rate_per_day", "importance"):
        try:
            numbers[column] = float(row[column])
        except ValueError:
            raise ConfigError(f"{where}: {column}: expected a number, got {row[column]!r}") from None
        if not 0.0 <= numbers[column] <= NUMBER_MAX:
            raise ConfigError(f"{where}: {column} must be 0 or more, got {row[column]}")
    try:
        amount = parse_size(row["size"])
    except ValueError as error:
        raise ConfigError(f"{where}: size: {error}") from None
    if row["server"] not in servers:
        raise ConfigError(f"{where}: server: there is no {row['server']!r} (allowed: {', '.join(sorted(servers))})")
    process = row.get(COLUMN_PROCESS) or "poisson"
    if process not in get_args(ProcessName):
        raise ConfigError(f"{where}: process: unknown {process!r} (allowed: {', '.join(get_args(ProcessName))})")
    return ScenarioDocuments(
        server=row["server"],
        rate=numbers["rate_per_day"],
        size=ByteSize(amount),
        importance=numbers["importance"],
        process=process,  # type: ignore[arg-type]
    )


ERROR_PLACE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?$", re.DOTALL)
ERROR_STEP = re.compile(r"^\.?(?P<section>\w+)(?:\[(?P<number>\d+|\.\.\.)\])?(?:\.(?P<key>\w+))?")
ERROR_FIELD = re.compile(r"Object (?P<why>contains unknown|missing required) field `(?P<key>[^`]*)`")
SECTIONS: dict[str, type[_ScenarioSection]] = {
    "run": ScenarioRun,
    "crawlers": ScenarioCrawlers,
    "servers": ScenarioServers,
    "documents": ScenarioDocuments,
}


def _explain(message: str) -> str:
    """msgspec's message, with section and key in front as they are written in the file."""
    place = ERROR_PLACE.match(message)
    assert place is not None
    step = ERROR_STEP.match(place["path"] or "")
    section, number, key = (step["section"], step["number"], step["key"] or "") if step else ("", None, "")
    name = f"[{section}]" if section in SECTIONS and number is None else section
    if number is not None and section in SECTIONS:
        name = f"[[{section}]] number {int(number) + 1}:"
    field = ERROR_FIELD.match(place["what"])
    fields = {one.name: one for one in msgspec.structs.fields(SECTIONS.get(section, Scenario))}
    if field and field["why"] == "contains unknown":
        return f"{name} unknown key {field['key']!r} (allowed: {', '.join(fields)})".lstrip()
    if field:
        return f"{name} {field['key']} is missing".lstrip()
    what = plain_message(place["what"])
    allowed = f" (allowed: {', '.join(_choices(fields[key].type))})" if "enum value" in what else ""
    if what.startswith("expected a list") and section in SECTIONS and not key:
        allowed = f" (write [[{section}]])"
    return f"{name} {key}: {what}{allowed}".replace(" : ", ": ").lstrip()


def _choices(kind: Any) -> list[str]:
    """The literal values that a type allows."""
    if isinstance(kind, str):
        return [kind]
    return list(dict.fromkeys(word for part in get_args(kind) for word in _choices(part)))


def _complaints(scenario: Scenario) -> Iterator[tuple[bool, str]]:
    """The rules that types alone cannot express. The first that is broken is reported."""
    run = scenario.run

    def between(where: str, value: float | None, low: float, high: float) -> tuple[bool, str]:
        return value is not None and not low <= value <= high, f"{where} must be {low:g} to {high:,g}, got {value}"

    yield between("[run] days", run.days, 1e-3, DAYS_MAX)
    yield between("[run] budget", run.budget, 1e-3, NUMBER_MAX)
    yield between("[run] share", run.share, 0, 1)
    yield between("[run] seed", run.seed, 0, NUMBER_MAX)
    yield between("[run] horizon", run.horizon, 60, DAYS_MAX * DAY_S)
    yield between("[run] statistic", run.statistic, 1, DAYS_MAX * DAY_S)
    yield run.warmup >= run.days * DAY_S, f"[run] warmup must be shorter than the {run.days:g} days of the run"
    yield not run.policies, "[run] policy must name at least one"
    yield between("[[crawlers]] count, in all,", sum(group.count for group in scenario.crawlers), 1, CRAWLERS_MAX)
    yield between("[[servers]] count, in all,", sum(group.count for group in scenario.servers), 1, SERVERS_MAX)
    names = [server.name for server in scenario.servers]
    groups: list[tuple[str, Sequence[ScenarioCrawlers | ScenarioServers]]]
    groups = [("crawlers", scenario.crawlers), ("servers", scenario.servers)]
    for kind, some in groups:
        for number, group in enumerate(some, 1):
            where = f"[[{kind}]] number {number}:"
            yield between(f"{where} count", group.count, 1, SERVERS_MAX)
            yield group.speed == 0, f"{where} speed must be above 0 bytes a second; leave it out for no limit"
    yield len(set(names)) < len(names), "[[servers]] name: two have the same one"
    for number, documents in enumerate(scenario.documents, 1):
        where = f"[[documents]] number {number}:"
        yield (
            documents.server not in names,
            (f"{where} server: there is no {documents.server!r} (allowed: {', '.join(names)})"),
        )
        yield (
            (documents.rate is None) == (documents.interval is None),
            (f"{where} give either rate (changes a day) or interval (mean time between changes)"),
        )
        yield documents.interval is not None and documents.interval <= 0, f"{where} interval must be above 0"
        yield between(f"{where} rate", documents.rate, 0, NUMBER_MAX)
        yield between(f"{where} count", documents.count, 1, DOCUMENTS_MAX)
        yield between(f"{where} importance", documents.importance, 0, NUMBER_MAX)
    yield not scenario.documents and scenario.documents_file is None, "no [[documents]] and no documents_file"
