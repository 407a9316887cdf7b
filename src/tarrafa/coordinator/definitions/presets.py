"""Presets of collections for common purposes, such as one site, a country, or legal deposit.

A preset is a function of where to begin, which country and whom to contact; it gives a table, and for each key the
reason, so that whoever reads the file learns what to change. Promises: every preset is a valid collection; what it
says in one language it says in the other. Knows nothing of files.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from tarrafa.coordinator.definitions.preset_comments import COMMENTS, HOW_TO_START, TITLES
from tarrafa.coordinator.definitions.toml_writer import toml_with_comments
from tarrafa.crawl.scope.collection_loader import parse_root
from tarrafa.errors import ConfigError, NotFound
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.i18n import LANGUAGES, message, translator
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.url import DEFAULT_PORTS, UrlIdentity, split

COUNTRY = re.compile(r"[a-z]{2,63}|xn--[a-z0-9-]{1,59}")
DOCUMENTS = (
    "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "application/rtf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.text",
)  # fmt: skip
EXCLUDED_PATTERNS = ("*/login*", "*/search?*", "*/busca?*", "*?*session*=*", "*?*sessao=*")  # pages of no use to others


class PresetRequest(msgspec.Struct, frozen=True):
    """What a preset is made for. No country: that of the root's host."""

    root: str
    name: str = "collection"
    country: str = ""
    contact: str = ""


class PresetRoot(msgspec.Struct, frozen=True):
    """A wish understood: a canonical URL and what it says about its host."""

    url: str
    host: str  # with its port, if that is not the usual one
    twin: str  # the same with or without www.
    site: str
    country: str


Table = dict[str, Any]


def preset_table(name: str, wish: PresetRequest) -> Table:
    """The table of a preset."""
    if name not in PRESETS:
        raise NotFound(
            message("no preset is named {name!r} (there are: {presets})", name=name[:80], presets=", ".join(PRESETS))
        )
    start = _preset_root(wish)
    table = {"name": wish.name, "roots": [start.url], **PRESETS[name](start)}
    politeness = {"delay": "1s", **table.pop("politeness", {}), "contact": wish.contact}
    scope = table.pop("scope", {})
    return {"name": table.pop("name"), "roots": table.pop("roots"), "scope": scope, "politeness": politeness, **table}


def preset_toml(name: str, wish: PresetRequest, language: str = "en", file: str = "collection.toml") -> str:
    """The same as a file with its reasons."""
    if language not in LANGUAGES:
        raise ConfigError(
            message(
                "no preset speaks {language!r} (allowed: {languages})",
                language=language,
                languages=", ".join(LANGUAGES),
            )
        )
    table, _ = preset_table(name, wish), translator(language)
    comments = {key: _.render(comment) for key, comment in COMMENTS.items() if " " not in key}
    own = {key: comment for key, comment in COMMENTS.items() if key.startswith(f"{name} ")}
    comments |= {key.partition(" ")[2]: _.render(comment) for key, comment in own.items()}
    above = f"{_.render(TITLES[name])}\n{_(HOW_TO_START.text, file=file)}"
    return toml_with_comments(table, comments, above)


def preset_titles(language: str = "en") -> dict[str, str]:
    """All presets, and what each is for."""
    return {name: translator(language).render(TITLES[name]) for name in PRESETS}


def _preset_root(wish: PresetRequest) -> PresetRoot:
    url = parse_root(wish.root.strip(), UrlIdentity())
    if url is None:
        raise ConfigError(message("root: not an http(s) URL or a host name: {root!r}", root=wish.root[:200]))
    parts = split(url)
    port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else f":{parts.port}"
    site = _suffixes().site(parts.host)
    twin = parts.host.removeprefix("www.")
    if twin == parts.host:  # only the site's own name has one: nobody has www.blog.a.br
        twin = f"www.{parts.host}" if parts.host == site and not _is_address(parts.host) else ""
    country = wish.country.strip().lower().removeprefix("*").removeprefix(".")
    if country and not COUNTRY.fullmatch(country):
        raise ConfigError(message("country: {country!r} is no top-level domain such as br", country=wish.country[:80]))
    country = country or ("" if _is_address(parts.host) else parts.host.rpartition(".")[2])
    return PresetRoot(url, f"{parts.host}{port}", f"{twin}{port}" if twin else "", site, country)


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list())


def _own_hosts(start: PresetRoot) -> list[str]:
    return [start.host, *([start.twin] if start.twin else [])]


def _page(start: PresetRoot) -> Table:
    return {
        "scope": {"hosts": _own_hosts(start), "depth_max": 0},
        "fetch": {"sitemaps": False, "feeds": False},
    }


def _directory(start: PresetRoot) -> Table:
    path = split(start.url).target.partition("?")[0]
    folder, _, last = path.rpartition("/")
    folder = f"{path}/" if last and "." not in last else f"{folder}/"  # /~maria is a folder, /a/index.html is in one
    patterns = [f"http*://{_escape_pattern(host + folder)}*" for host in _own_hosts(start)]
    return {"scope": {"hosts": _own_hosts(start), "include": patterns}}


def _escape_pattern(text: str) -> str:
    """As a pattern that means the text itself."""
    return re.sub(r"([*?\[])", r"[\1]", text)


def _site(start: PresetRoot) -> Table:
    return {"scope": {"hosts": _own_hosts(start), "exclude": list(EXCLUDED_PATTERNS)}}


def _and_below(start: PresetRoot) -> list[str]:
    return [start.site] if _is_address(start.site) else [start.site, f"*.{start.site}"]


def _subdomains(start: PresetRoot) -> Table:
    return {"scope": {"hosts": _and_below(start), "exclude": list(EXCLUDED_PATTERNS)}}


def _of_country(start: PresetRoot) -> list[str]:
    if not start.country:
        raise ConfigError(message("country: the root's host has no name, so name the country (such as br)"))
    return [f"*.{start.country}"]


def _country(start: PresetRoot) -> Table:
    return {
        "scope": {
            "hosts": _of_country(start),
            "exclude": list(EXCLUDED_PATTERNS),
            "host_pages_max": 10_000,
            "depth_max": 15,
        },
        "politeness": {"delay": "2s"},
        "strategy": {"order": "backlinks"},
    }


def _rdfa(start: PresetRoot) -> Table:
    return {
        "scope": {"hosts": _and_below(start), "exclude": list(EXCLUDED_PATTERNS), "keep": "structured"},
    }


def _legal_deposit(start: PresetRoot) -> Table:
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


def _breadth(start: PresetRoot) -> Table:
    return {
        "scope": {"hosts": _of_country(start), "site_hosts_max": 100, "size_max": "500 KB"},
        "fetch": {"sitemaps": False, "feeds": False},
        "strategy": {"order": "breadth", "favour": _of_country(start), "penalise": list(EXCLUDED_PATTERNS)},
    }


PRESETS: dict[str, Callable[[PresetRoot], Table]] = {
    "page": _page,
    "directory": _directory,
    "site": _site,
    "subdomains": _subdomains,
    "country": _country,
    "rdfa": _rdfa,
    "legal-deposit": _legal_deposit,
    "breadth": _breadth,
}
