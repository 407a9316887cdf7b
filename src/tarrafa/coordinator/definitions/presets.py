"""Presets of collections for common purposes, such as one site, a country, or legal deposit.

A preset makes a table from a root, a country and a contact; as a file, each key has a comment that says why.
Promises: every preset is a valid collection. Knows nothing of files.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from tarrafa.coordinator.definitions.toml_writer import toml_with_comments
from tarrafa.crawl.scope.collection_loader import parse_root
from tarrafa.errors import ConfigError, NotFound
from tarrafa.i18n import LANGUAGES, translator
from tarrafa.i18n import message as _
from tarrafa.model import DATA_SYNTAXES
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.url import UrlIdentity, authority_of, split
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

COUNTRY = re.compile(r"[a-z]{2,63}|xn--[a-z0-9-]{1,59}")
DOCUMENTS = (
    "text/html", "application/xhtml+xml", "text/plain", "application/pdf", "application/rtf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "application/vnd.oasis.opendocument.text",
)  # fmt: skip
EXCLUDED_PATTERNS = ("*/login*", "*/search?*", "*/busca?*", "*?*session*=*", "*?*sessao=*")  # without content

Table = dict[str, Any]


class PresetRequest(msgspec.Struct, frozen=True):
    """What a preset is made for. Without a country: that of the root's host."""

    root: str
    name: str = "collection"
    country: str = ""
    contact: str = ""


class PresetRoot(msgspec.Struct, frozen=True):
    """The root of a preset: its canonical URL and what follows from its host."""

    url: str
    host: str  # with its port, if that is not the usual one
    twin: str  # the same with or without www.
    site: str
    country: str

    @classmethod
    def of(cls, wish: PresetRequest) -> "PresetRoot":
        url = parse_root(wish.root.strip(), UrlIdentity())
        if url is None:
            raise ConfigError(_("root: not an http(s) URL or a host name: {root!r}", root=wish.root[:200]))
        parts = split(url)
        site, is_address = _suffixes().site(parts.host), _is_address(parts.host)
        twin = parts.host.removeprefix("www.")
        if twin == parts.host:  # only the site's own name has one: www.blog.a.br is not usual
            twin = f"www.{parts.host}" if parts.host == site and not is_address else ""
        country = wish.country.strip().lower().removeprefix("*").removeprefix(".")
        if country and not COUNTRY.fullmatch(country):
            text = _("country: {country!r} is no top-level domain such as br", country=wish.country[:80])
            raise ConfigError(text)
        country = country or ("" if is_address else parts.host.rpartition(".")[2])
        host = authority_of(url)
        return cls(url, host, f"{twin}{host.removeprefix(parts.host)}" if twin else "", site, country)

    def own_hosts(self) -> list[str]:
        return [self.host, self.twin] if self.twin else [self.host]

    def site_hosts(self) -> list[str]:
        return [self.site] if _is_address(self.site) else [self.site, f"*.{self.site}"]

    def country_hosts(self) -> list[str]:
        if not self.country:
            raise ConfigError(_("country: the root's host has no name, so name the country (such as br)"))
        return [f"*.{self.country}"]

    def directory_patterns(self) -> list[str]:
        path = split(self.url).target.partition("?")[0]
        folder, _slash, last = path.rpartition("/")
        folder = f"{path}/" if last and "." not in last else f"{folder}/"  # /~maria is a folder, /a/index.html is not
        literal = [re.sub(r"([*?\[])", r"[\1]", host + folder) for host in self.own_hosts()]
        return [f"http*://{text}*" for text in literal]


PRESETS: dict[str, Callable[[PresetRoot], Table]] = {
    "page": lambda root: {
        "scope": {"hosts": root.own_hosts(), "depth_max": 0},
        "fetch": {"sitemaps": False, "feeds": False},
    },
    "directory": lambda root: {"scope": {"hosts": root.own_hosts(), "include": root.directory_patterns()}},
    "site": lambda root: {"scope": {"hosts": root.own_hosts(), "exclude": [*EXCLUDED_PATTERNS]}},
    "subdomains": lambda root: {"scope": {"hosts": root.site_hosts(), "exclude": [*EXCLUDED_PATTERNS]}},
    "country": lambda root: {
        "scope": {
            "hosts": root.country_hosts(),
            "exclude": [*EXCLUDED_PATTERNS],
            "host_pages_max": 10_000,
            "depth_max": 15,
        },
        "politeness": {"delay": "2s"},
        "strategy": {"order": "backlinks"},
    },
    "rdfa": lambda root: {
        "scope": {
            "hosts": root.site_hosts(),
            "exclude": [*EXCLUDED_PATTERNS],
            "keep": "structured",
            "syntaxes": [*DATA_SYNTAXES],
            "open_graph": False,
        },
    },
    "legal-deposit": lambda root: {
        "scope": {
            "hosts": root.site_hosts(),
            "types": [*DOCUMENTS],
            "size_max": "100 MB",
            "copies_max": 1_000,
            "host_pages_max": 1_000_000,
            "keep": "faithful",
        },
        "politeness": {"delay": "2s"},
        "fetch": {"time_max": "30 min", "retries": 5},
        "requisites": {"size_max": "100 MB"},
        "schedule": {"every": "0 2 1 * *"},
    },
    "breadth": lambda root: {
        "scope": {"hosts": root.country_hosts(), "site_hosts_max": 100, "size_max": "500 KB"},
        "fetch": {"sitemaps": False, "feeds": False},
        "strategy": {"order": "breadth", "favour": root.country_hosts(), "penalise": [*EXCLUDED_PATTERNS]},
    },
}
HOW_TO_START = _(
    "tarrafa check {file} URL   says which URLs are in or out\n"
    "tarrafa estimate {file}    how long it will take\n"
    "tarrafa crawl {file}       starts it, and goes on after a stop"
)
TITLES = {
    "page": _("One page: the page itself, and nothing that it links to."),
    "directory": _("One directory: everything below one path of a host."),
    "site": _("One site: everything on one host."),
    "subdomains": _("A site with its subdomains: everything below a registered domain."),
    "country": _("A country's domain: everything below a top-level domain, within limits for each host."),
    "rdfa": _("Structured data: only pages of a site that carry RDFa, JSON-LD or microdata are kept."),
    "legal-deposit": _("Legal deposit: a publisher's site as readers see it, again every month, old versions kept."),
    "breadth": _(
        "Discovery in breadth: which sites does a country have? A few pages of each, the most mentioned first."
    ),
}
COMMENTS = {  # by key, or by preset and key where a preset has a comment of its own
    "roots": _("The roots: URLs or host names where the crawl begins. They are always in scope."),
    "scope.hosts": _("With and without www., where there are both: many sites redirect from one to the other."),
    "subdomains scope.hosts": _("The registered domain and everything below it, at any depth."),
    "rdfa scope.hosts": _("The registered domain and everything below it, at any depth."),
    "legal-deposit scope.hosts": _("The publisher's registered domain and everything below it."),
    "country scope.hosts": _("Everything below the country's domain. Add the country's sites elsewhere by name."),
    "breadth scope.hosts": _("Sites of the country. Links to others are counted, not followed."),
    "scope.include": _(
        "Only URLs that match one of these belong, over http or https.\n"
        "Pages outside are not fetched, so what is linked from there only is not found."
    ),
    "scope.exclude": _("Pages without content of their own, often without end."),
    "page scope.depth_max": _("No links are followed; redirects are, they cost no depth."),
    "country scope.depth_max": _("What lies deeper than this is mostly made by machines."),
    "scope.host_pages_max": _("No host may take the whole crawl; at one request every two seconds this is six hours."),
    "legal-deposit scope.host_pages_max": _("A deposit wants all of it."),
    "scope.site_hosts_max": _("Domains with a wildcard have hosts without end."),
    "scope.keep": _("All links are followed; only pages that state something are kept."),
    "legal-deposit scope.keep": _("With images, styles, scripts, fonts and frames, also from other hosts."),
    "requisites.size_max": _("Of one image, film or font."),
    "scope.syntaxes": _(
        'Data in one of these; ["rdfa"] keeps only pages with RDFa.\n'
        'vocabularies = ["schema", "foaf"] keeps only pages that use one of these vocabularies.'
    ),
    "scope.open_graph": _("true also keeps pages that have Open Graph only, which nearly every page has."),
    "scope.types": _("Publications are not only pages."),
    "legal-deposit scope.size_max": _("A book in PDF is large."),
    "breadth scope.size_max": _("A first page larger than this says little more."),
    "scope.copies_max": _("The same text under several addresses was published under several addresses."),
    "politeness.delay": _("Between the end of an answer and the next request to the same host."),
    "politeness.contact": _("A page or address where webmasters reach you; sent with every request."),
    "fetch.sitemaps": _("Sitemaps and feeds would lead to other pages."),
    "breadth fetch.sitemaps": _("They lead deeper into a site; this looks for others."),
    "fetch.time_max": _("Large documents take longer."),
    "fetch.retries": _("What is missing in a deposit is missing for ever."),
    "strategy.order": _("What most pages link to comes first: whenever it ends, the important pages are there."),
    "breadth strategy.order": _("Sites that were not visited yet come first."),
    "strategy.favour": _("Matters once hosts of other domains are added above."),
    "strategy.penalise": _("A poor choice for a site's first page."),
    "schedule.every": _(
        "At two in the morning of each month's first day (UTC; timezone = names another), from the roots again.\n"
        "`tarrafa node` keeps to it; `tarrafa crawl` makes one run."
    ),
}


def preset_table(name: str, wish: PresetRequest) -> Table:
    if name not in PRESETS:
        raise NotFound(
            _("no preset is named {name!r} (there are: {presets})", name=name[:80], presets=", ".join(PRESETS))
        )
    root = PresetRoot.of(wish)
    table = PRESETS[name](root)
    politeness = {"delay": "1s", **table.pop("politeness", {}), "contact": wish.contact}
    return {"name": wish.name, "roots": [root.url], "scope": table.pop("scope"), "politeness": politeness, **table}


def preset_toml(name: str, wish: PresetRequest, language: str = "en", file: str = "collection.toml") -> str:
    """The preset as a file with comments."""
    if language not in LANGUAGES:
        allowed = ", ".join(LANGUAGES)
        raise ConfigError(
            _("no preset is written in {language!r} (allowed: {languages})", language=language, languages=allowed)
        )
    table, reader = preset_table(name, wish), translator(language)
    comments = {key: text for key, text in COMMENTS.items() if " " not in key}
    comments |= {key.removeprefix(f"{name} "): text for key, text in COMMENTS.items() if key.startswith(f"{name} ")}
    above = f"{reader.render(TITLES[name])}\n{reader(HOW_TO_START.text, file=file)}"
    return toml_with_comments(table, {key: reader.render(text) for key, text in comments.items()}, above)


def preset_titles(language: str = "en") -> dict[str, str]:
    """All presets, and what each is for."""
    return {name: translator(language).render(TITLES[name]) for name in PRESETS}


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.replace(".", "").isdigit()


@cache
def _suffixes() -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list())
