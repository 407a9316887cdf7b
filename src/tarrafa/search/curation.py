"""Curation rules of the operator (DATA/search.toml): synonyms, pinned pages, demoted and blocked sites.

    # DATA/search.toml
    synonyms = [["carro", "automóvel"], ["bh", "belo horizonte"]]
    blocked  = ["spam.example"]                                  # sites: the domain and everything below it
    lowered  = ["farm.example", {site = "ads.example", factor = 0.1}]

    [[pin]]
    query = "vestibular"
    url   = "https://www.ufmg.br/vestibular/"

Promises: `CurationRules` are pure and complete: every accepted entry takes effect. An unknown key or an invalid value
is one `ConfigError` with the file, the place and the allowed values. `Curation` checks the file at every call: a change
takes effect with the next search; a broken file changes nothing and is logged once. Words are compared as in the index:
accents, case and plurals do not matter. Knows nothing of tantivy, hits or takedowns (`tarrafa.takedown`): blocked sites
are only hidden.
"""

import contextlib
import logging
import re
import threading
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tarrafa.errors import ConfigError
from tarrafa.index.text_analysis import readings, words
from tarrafa.parse.url import LABELS_MAX, canonical, domain_and_parents, host_name, parse_domain
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, write_atomically

FILE_BYTES_MAX = 8 << 20
SYNONYM_GROUPS_MAX, GROUP_WORDS_MAX = 10_000, 50  # groups of synonyms, and words in one group
SYNONYMS_MAX = 20  # of one word: each adds a clause to the query
TEXT_CHARS_MAX, TEXT_WORDS_MAX = 200, 8
BLOCKED_MAX, LOWERED_MAX = 10_000, 100_000  # sites; each blocked site costs every search 2 us (`ExclusionFilter`)
PINS_MAX, PINS_PER_QUERY_MAX = 10_000, 10
DEMOTION_FACTOR = 0.3  # the factor of a site without one of its own

log = logging.getLogger(__name__)


class Pin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL that is the first hit for exactly this query."""

    query: str
    url: str


class DemotedSite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The scores of this site's pages are multiplied by `factor`."""

    site: str
    factor: float = DEMOTION_FACTOR


class CurationFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file as written."""

    synonyms: tuple[tuple[str, ...], ...] = ()
    blocked: tuple[str, ...] = ()
    lowered: tuple[str | DemotedSite, ...] = ()
    pin: tuple[Pin, ...] = ()


class CurationRules(msgspec.Struct, frozen=True, dict=True):
    """The rules in force. Texts are as written, sites are domains, URLs are canonical."""

    groups: tuple[tuple[str, ...], ...] = ()
    blocked: frozenset[str] = frozenset()
    lowered: dict[str, float] = {}
    pins: dict[str, tuple[str, ...]] = {}

    def synonyms(self, word: str) -> tuple[str, ...]:
        """The synonyms of this word or phrase, in the file's order."""
        if not self.groups:
            return ()
        found = dict.fromkeys(number for key in readings(word) for number in self._groups_of.get(key, ()))
        same, others = set(readings(word)), dict[str, None]()
        for number in found:
            others |= dict.fromkeys(text for text in self.groups[number] if same.isdisjoint(readings(text)))
        return tuple(others)[:SYNONYMS_MAX]

    @cached_property
    def _groups_of(self) -> dict[tuple[str, ...], list[int]]:
        places: dict[tuple[str, ...], list[int]] = {}
        for number, group in enumerate(self.groups):
            for key in dict.fromkeys(key for text in group for key in readings(text)):
                places.setdefault(key, []).append(number)
        return places

    def pinned_urls(self, query: str) -> list[str]:
        """The pinned URLs of exactly this query, in the file's order."""
        return list(self.pins.get(normalize_query(query), ())) if self.pins else []

    def factor(self, host: str) -> float:
        """The factor for the scores of this host's pages, by the nearest domain that is listed."""
        if not self.lowered:
            return 1.0
        return next((self.lowered[name] for name in domain_and_parents(host) if name in self.lowered), 1.0)

    def blocks(self, host: str) -> bool:
        """Whether pages of this host are never shown."""
        return bool(self.blocked) and not self.blocked.isdisjoint(domain_and_parents(host))


NO_RULES = CurationRules()


def normalize_query(query: str) -> str:
    """Normalize a query for comparison: accents, case, spaces and surrounding punctuation do not count. Signs inside
    do: `-rede` means the opposite of `rede`.
    """
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", query).casefold())
    plain = "".join(char for char in apart if not unicodedata.combining(char))
    return " ".join(plain.split()).strip(" .,;!?'\"“”„«»")


# -- the file ----------------------------------------------------------------------------------------------------------


def path_of(data: DataDirectory) -> Path:
    return data.root / "search.toml"


def read_rules(path: Path) -> tuple[CurationRules, bytes]:
    """The rules of a file, and the file itself. No file: no rules."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: larger than the {FILE_BYTES_MAX >> 20} MB allowed")
        return rules_from_table(tomllib.loads(content.decode("utf-8-sig")), str(path)), content
    except FileNotFoundError:
        return NO_RULES, b""
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None


def rules_from_table(table: dict[str, Any], where: str) -> CurationRules:
    """Rules from a TOML table; `where` stands in front of every error message."""
    try:
        written = msgspec.convert(table, CurationFile)
        _check_counts(written)
        lowered = [DemotedSite(one) if isinstance(one, str) else one for one in written.lowered]
        blocked = frozenset(_site(text, f"blocked[{number}]") for number, text in enumerate(written.blocked))
        return CurationRules(
            tuple(_group(texts, f"synonyms[{number}]") for number, texts in enumerate(written.synonyms)),
            blocked,
            {_site(one.site, place): _factor(one, place) for place, one in _numbered("lowered", lowered)},
            _pins(written.pin, blocked),
        )
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {_explain(str(error))}") from None
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None


def _numbered(name: str, many: Iterable[DemotedSite]) -> Iterator[tuple[str, DemotedSite]]:
    return ((f"{name}[{number}]", one) for number, one in enumerate(many))


def _check_counts(written: CurationFile) -> None:
    for name, count, most in (
        ("synonyms", len(written.synonyms), SYNONYM_GROUPS_MAX),
        ("blocked", len(written.blocked), BLOCKED_MAX),
        ("lowered", len(written.lowered), LOWERED_MAX),
        ("[[pin]]", len(written.pin), PINS_MAX),
    ):
        if count > most:
            raise ValueError(f"{name}: {count:,} are more than the {most:,} allowed")


def _group(texts: tuple[str, ...], where: str) -> tuple[str, ...]:
    group = tuple(dict.fromkeys(" ".join(text.split()) for text in texts))
    for text in group:
        if not words(text) or len(text) > TEXT_CHARS_MAX or len(words(text)) > TEXT_WORDS_MAX:
            raise ValueError(f"{where}: {text[:40]!r} must be a word, or a phrase of at most {TEXT_WORDS_MAX} words")
    if not 2 <= len(group) <= GROUP_WORDS_MAX:
        raise ValueError(f"{where}: a group is 2 to {GROUP_WORDS_MAX} words that mean the same, got {len(group)}")
    return group


def _site(text: str, where: str) -> str:
    name = parse_domain(text)
    if name is None or name.count(".") >= LABELS_MAX:
        hint = " (everything below a site is meant anyway: leave the *. out)" if text.startswith("*.") else ""
        raise ValueError(f"{where}: {text[:80]!r} is no site such as ufmg.br{hint}")
    return name


def _factor(one: DemotedSite, where: str) -> float:
    if not 0 < one.factor < 1:
        hint = "; to hide a site, name it under blocked" if one.factor == 0 else ""
        raise ValueError(f"{where}: factor must be more than 0 and less than 1, got {one.factor:g}{hint}")
    return one.factor


def _pins(pins: tuple[Pin, ...], blocked: frozenset[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for number, pin in enumerate(pins, 1):
        where, query, url = f"[[pin]] number {number}", normalize_query(pin.query), canonical(pin.url)
        if not query or len(pin.query) > TEXT_CHARS_MAX:
            raise ValueError(f"{where}: query must be 1 to {TEXT_CHARS_MAX} characters, got {pin.query[:40]!r}")
        if url is None:
            raise ValueError(f"{where}: url: {pin.url[:80]!r} is no http(s) URL")
        if not blocked.isdisjoint(domain_and_parents(host_name(url))):
            raise ValueError(f"{where}: url: {url} is on a site that is blocked; one of the two must go")
        urls = dict.fromkeys((*found.get(query, ()), url))
        if len(urls) > PINS_PER_QUERY_MAX:
            raise ValueError(f"{where}: more than {PINS_PER_QUERY_MAX} pages are pinned for {pin.query[:40]!r}")
        found[query] = tuple(urls)
    return found


_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?$", re.DOTALL)
_STEPS = re.compile(r"^(?P<table>pin|lowered)\[(?P<number>\d+)\](?:\.(?P<key>\w+))?$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<key>[^`]*)`")
_MISSING = re.compile(r"Object missing required field `(?P<key>[^`]*)`")
_KINDS = {"str": "text", "array": "a list", "object": "a table", "int": "a whole number", "float": "a number",
          "str | object": "a site or {site = …, factor = …}", "bool": "true or false"}  # fmt: skip


def _explain(message: str) -> str:
    """Rewrite an error message of msgspec for people."""
    match = _PATH.match(message)
    assert match is not None
    what, path = match["what"], match["path"] or ""
    steps = _STEPS.match(path)
    holder = Pin if path.startswith("pin[") else DemotedSite if path.startswith("lowered[") else CurationFile
    where = path
    if steps and steps["table"] == "pin":
        where = f"[[pin]] number {int(steps['number']) + 1}" + (f": {steps['key']}" if steps["key"] else "")
    where = f"{where}: " if where else ""
    if unknown := _UNKNOWN.match(what):
        allowed = ", ".join("[[pin]]" if name == "pin" else name for name in holder.__struct_fields__)
        misplaced = holder is not CurationFile and unknown["key"] in CurationFile.__struct_fields__
        hint = f"; {unknown['key']} must stand above the first [[pin]]" if misplaced else ""
        return f"{where}unknown key {unknown['key']!r} (allowed: {allowed}){hint}"
    if missing := _MISSING.match(what):
        return f"{where}{missing['key']} is missing"
    if path == "pin":
        return "pin: write each as a table of its own, [[pin]] with query and url"
    return where + re.sub(r"`([^`]*)`", lambda kind: _KINDS.get(kind[1], kind[1]), what[0].lower() + what[1:])


# -- reloading ---------------------------------------------------------------------------------------------------------


class Curation:
    """The current rules of a data directory, for any number of threads.

    The last valid file is kept in `run/`, so that a process that starts while the file is broken uses it too.
    """

    def __init__(self, data: DataDirectory) -> None:
        self._path, self._good = path_of(data), data.run / "search.good.toml"
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._rules: CurationRules | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """The error in the present file; empty if there is none."""
        self.rules()
        return self._problem

    def rules(self) -> CurationRules:
        """The rules for a search that starts now."""
        seen = file_fingerprint(self._path)
        current = self._rules
        if current is not None and seen == self._seen:
            return current
        with self._lock:
            if self._rules is None or seen != self._seen:
                self._rules = self._read()
                self._seen = seen
            return self._rules

    def _read(self) -> CurationRules:
        try:
            found, content = read_rules(self._path)
        except ConfigError as error:
            self._problem = str(error)
            log.warning("%s; the last valid rules apply until the file is corrected", error)
            return self._rules if self._rules is not None else self._last_good()
        self._problem = ""
        self._remember(content)
        return found

    def _last_good(self) -> CurationRules:
        with contextlib.suppress(ConfigError):
            return read_rules(self._good)[0]
        return NO_RULES

    def _remember(self, content: bytes) -> None:
        """Save the last valid file if possible: a process that only reads may lack the permission to write."""
        with contextlib.suppress(OSError):
            known = self._good.read_bytes() if self._good.exists() else b""
            if known != content:
                write_atomically(self._good, content, durable=False)
