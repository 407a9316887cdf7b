"""How does one begin, for the usual purposes?

A preset is a function of where to begin, which country and whom to contact; it gives a table, and for each key the
reason, so that whoever reads the file learns what to change. Promises: every preset is a valid collection; what it says
in one language it says in the other (`preset_words.py`).
Knows nothing of files.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from tarrafa.coordinate.preset_words import LANGUAGES, REASONS, TITLES
from tarrafa.coordinate.writing import commented
from tarrafa.crawl.collection import root_url
from tarrafa.errors import ConfigError, NoSuchThing
from tarrafa.fetch.suffixes import bundled_list
from tarrafa.parse.site import Suffixes
from tarrafa.parse.url import DEFAULT_PORTS, Identity, split

COUNTRY = re.compile(r"[a-z]{2,63}|xn--[a-z0-9-]{1,59}")
DOCUMENTS = (
    "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "application/rtf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.text",
)  # fmt: skip
NUISANCES = ("*/login*", "*/search?*", "*/busca?*", "*?*session*=*", "*?*sessao=*")  # pages of no use to others


class Wish(msgspec.Struct, frozen=True):
    """What a preset is made for. No country: that of the root's host."""

    root: str
    name: str = "collection"
    country: str = ""
    contact: str = ""


class Start(msgspec.Struct, frozen=True):
    """A wish understood: a canonical URL and what it says about its host."""

    url: str
    host: str  # with its port, if that is not the usual one
    twin: str  # the same with or without www.
    site: str
    country: str


Table = dict[str, Any]


def make(name: str, wish: Wish) -> Table:
    """The table of a preset."""
    if name not in PRESETS:
        raise NoSuchThing(f"no preset is named {name[:80]!r} (there are: {', '.join(PRESETS)})")
    start = _understood(wish)
    table = {"name": wish.name, "roots": [start.url], **PRESETS[name](start)}
    politeness = {"delay": "1s", **table.pop("politeness", {}), "contact": wish.contact}
    scope = table.pop("scope", {})
    return {"name": table.pop("name"), "roots": table.pop("roots"), "scope": scope, "politeness": politeness, **table}


def write(name: str, wish: Wish, language: str = "en", file: str = "collection.toml") -> str:
    """The same as a file with its reasons."""
    if language not in LANGUAGES:
        raise ConfigError(f"no preset speaks {language!r} (allowed: {', '.join(LANGUAGES)})")
    table = make(name, wish)
    reasons = {key: said[language] for key, said in REASONS.items() if " " not in key}
    reasons |= {key.partition(" ")[2]: said[language] for key, said in REASONS.items() if key.startswith(f"{name} ")}
    above = f"{TITLES[name][language]}\n{REASONS['how to start'][language].format(file=file)}"
    return commented(table, reasons, above)


def titles(language: str = "en") -> dict[str, str]:
    """All presets, and what each is for."""
    return {name: TITLES[name].get(language, TITLES[name]["en"]) for name in PRESETS}


def _understood(wish: Wish) -> Start:
    url = root_url(wish.root.strip(), Identity())
    if url is None:
        raise ConfigError(f"root: not an http(s) URL or a host name: {wish.root[:200]!r}")
    parts = split(url)
    port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else f":{parts.port}"
    site = _suffixes().site(parts.host)
    twin = parts.host.removeprefix("www.")
    if twin == parts.host:  # only the site's own name has one: nobody has www.blog.a.br
        twin = f"www.{parts.host}" if parts.host == site and not _is_address(parts.host) else ""
    country = wish.country.strip().lower().removeprefix("*").removeprefix(".")
    if country and not COUNTRY.fullmatch(country):
        raise ConfigError(f"country: {wish.country[:80]!r} is no top-level domain such as br")
    country = country or ("" if _is_address(parts.host) else parts.host.rpartition(".")[2])
    return Start(url, f"{parts.host}{port}", f"{twin}{port}" if twin else "", site, country)


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


@lru_cache(maxsize=1)
def _suffixes() -> Suffixes:
    return Suffixes(bundled_list())


def _own_hosts(start: Start) -> list[str]:
    return [start.host, *([start.twin] if start.twin else [])]


def _page(start: Start) -> Table:
    return {
        "scope": {"hosts": _own_hosts(start), "depth_max": 0},
        "fetch": {"sitemaps": False, "feeds": False},
    }


def _directory(start: Start) -> Table:
    path = split(start.url).target.partition("?")[0]
    folder, _, last = path.rpartition("/")
    folder = f"{path}/" if last and "." not in last else f"{folder}/"  # /~maria is a folder, /a/index.html is in one
    patterns = [f"http*://{_literally(host + folder)}*" for host in _own_hosts(start)]
    return {"scope": {"hosts": _own_hosts(start), "include": patterns}}


def _literally(text: str) -> str:
    """As a pattern that means the text itself."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def _site(start: Start) -> Table:
    return {"scope": {"hosts": _own_hosts(start), "exclude": list(NUISANCES)}}


def _and_below(start: Start) -> list[str]:
    return [start.site] if _is_address(start.site) else [start.site, f"*.{start.site}"]


def _subdomains(start: Start) -> Table:
    return {"scope": {"hosts": _and_below(start), "exclude": list(NUISANCES)}}


def _of_country(start: Start) -> list[str]:
    if not start.country:
        raise ConfigError("country: the root's host has no name, so name the country (such as br)")
    return [f"*.{start.country}"]


def _country(start: Start) -> Table:
    return {
        "scope": {"hosts": _of_country(start), "exclude": list(NUISANCES), "host_pages_max": 10_000, "depth_max": 15},
        "politeness": {"delay": "2s"},
        "strategy": {"order": "backlinks"},
    }


def _rdfa(start: Start) -> Table:
    return {
        "scope": {"hosts": _and_below(start), "exclude": list(NUISANCES), "keep": "structured"},
    }


def _legal_deposit(start: Start) -> Table:
    return {
        "scope": {
            "hosts": _and_below(start),
            "types": list(DOCUMENTS),
            "size_max": "100 MB",
            "copies_max": 1_000,
            "host_pages_max": 1_000_000,
        },
        "politeness": {"delay": "2s"},
        "fetch": {"time_max": "30 min", "retries": 5},
        "schedule": {"every": "0 2 1 * *"},
    }


def _breadth(start: Start) -> Table:
    return {
        "scope": {"hosts": _of_country(start), "site_hosts_max": 100, "size_max": "500 KB"},
        "fetch": {"sitemaps": False, "feeds": False},
        "strategy": {"order": "breadth", "favour": _of_country(start), "penalise": list(NUISANCES)},
    }


PRESETS: dict[str, Callable[[Start], Table]] = {
    "page": _page,
    "directory": _directory,
    "site": _site,
    "subdomains": _subdomains,
    "country": _country,
    "rdfa": _rdfa,
    "legal-deposit": _legal_deposit,
    "breadth": _breadth,
}
