"""The form fields of a collection, derived from the configuration types, with their labels and help.

Promises: a key that is added to the types of `config` is a field here; a form shows the basic fields first.
Knows nothing of HTML.
"""

from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tarrafa.config import Collection
from tarrafa.config.formats import ByteSize, LocalDateTime, Seconds
from tarrafa.i18n import message as _  # the keyword by which sentences are collected

FieldKind = Literal["text", "lines", "pairs", "number", "duration", "size", "choice", "choices", "switch", "date"]
FILE_ONLY_FIELDS = frozenset({"roots_file", "network.ca_file"})  # they name files of the machine that reads them
BASIC_FIELDS = frozenset({
    "name", "roots", "scope.hosts", "scope.include", "scope.exclude", "scope.depth_max", "scope.pages_max",
    "scope.keep", "scope.languages", "politeness.delay", "politeness.contact", "render.when", "revisit.policy",
    "schedule.start", "schedule.deadline", "schedule.every", "schedule.timezone", "notify.webhook", "notify.email",
})  # fmt: skip
_PLAIN: dict[type, FieldKind] = {
    str: "text",
    bool: "switch",
    int: "number",
    float: "number",
    Seconds: "duration",
    ByteSize: "size",
    LocalDateTime: "date",
}


class CollectionField(msgspec.Struct, frozen=True):
    """A field of the form. `choices`: its possible values, if they are few and fixed."""

    name: str  # scope.depth_max
    section: str
    key: str  # within its section; may be deeper: weights.block
    kind: FieldKind
    basic: bool
    choices: tuple[str, ...] = ()
    whole: bool = False  # a number without decimals


@cache
def collection_fields() -> dict[str, CollectionField]:
    """All fields by name, in the order of the file."""
    found: dict[str, CollectionField] = {}
    _collect(found, (), Collection)
    return found


def _collect(found: dict[str, CollectionField], path: tuple[str, ...], kind: Any) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            _collect(found, (*path, field.name), field.type)
        return
    if get_origin(kind) in (Union, UnionType):  # without the None of an absent key
        kind = next(one for one in get_args(kind) if one is not NoneType)
    name, (shown, choices) = ".".join(path), _kind_and_choices(kind)
    if shown is not None and name not in FILE_ONLY_FIELDS:
        section, key = (path[0], ".".join(path[1:])) if len(path) > 1 else ("", path[0])
        found[name] = CollectionField(name, section, key, shown, name in BASIC_FIELDS, choices, kind is int)


def _kind_and_choices(kind: Any) -> tuple[FieldKind | None, tuple[str, ...]]:
    """The kind of field for a value of that type; None: a form cannot show it."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "choice", arguments
    if origin is tuple and get_origin(arguments[0]) is Literal:
        return "choices", get_args(arguments[0])
    if origin is tuple:
        return ("lines" if arguments[0] is str else None), ()
    if origin is dict:
        return ("pairs" if arguments[0] is str and arguments[1] in (str, Seconds, ByteSize) else None), ()
    return _PLAIN.get(kind), ()


SECTION_LABELS = {
    "": _("Collection"),
    "scope": _("Scope"),
    "politeness": _("Politeness"),
    "fetch": _("Fetch limits"),
    "requisites": _("What pages need to be shown"),
    "render": _("Pages made by scripts"),
    "strategy": _("Crawl order"),
    "revisit": _("Revisits"),
    "archive": _("Archive"),
    "schedule": _("Schedule"),
    "notify": _("Notifications"),
    "network": _("Network"),
    "identity": _("Which URLs are the same page"),
}
FIELD_LABELS = {  # label, help
    "name": (_("Name"), _("a-z, 0-9, dot, underscore and hyphen; it cannot be changed later")),
    "roots": (_("Roots"), _("URLs or host names where the crawl begins, one per line; they are always in scope")),
    "scope.hosts": (
        _("Hosts in scope"),
        _("one pattern per line: a.br that host, *.a.br all below it but not itself, * all; empty: the roots' hosts"),
    ),
    "scope.include": (
        _("Only these URLs"),
        _("one pattern per line, such as http*://www.a.br/news/*; empty: all on those hosts"),
    ),
    "scope.exclude": (_("Not these URLs"), _("one pattern per line, such as */login*")),
    "scope.types": (_("Types of documents"), _("MIME types, one per line; the rest is not fetched")),
    "scope.size_max": (_("Largest document"), _("such as 2 MB; larger documents are not kept")),
    "scope.depth_max": (_("Depth"), _("the most links from a root; 0: only the roots; empty: no limit")),
    "scope.pages_max": (_("Pages"), _("the most pages to keep; empty: no limit")),
    "scope.requests_max": (_("Requests"), _("the most requests of one run, whatever they return; empty: no limit")),
    "scope.host_pages_max": (
        _("URLs of one host"),
        _("the most that are requested in one run, kept or not; without revisits"),
    ),
    "scope.site_hosts_max": (_("Hosts of one site"), _("the most; some domains have names without end")),
    "scope.copies_max": (
        _("Copies of a text"),
        _("so many URLs of a host may have the very same text; further ones are not kept"),
    ),
    "scope.alike_max": (_("Similar texts"), _("the same for texts that differ in numbers only, such as calendars")),
    "scope.languages": (_("Languages"), _("codes such as pt, one per line: only pages in these are kept; empty: all")),
    "scope.beyond": (
        _("Explore other hosts"),
        _("with languages: links of kept pages to other hosts are visited, too"),
    ),
    "scope.keep": (
        _("Keep"),
        _("all pages; only those that carry structured data; or all with what they need to be shown"),
    ),
    "scope.syntaxes": (
        _("Syntaxes of the data"),
        _("with structured data: only pages with data in one of these; none: all of them"),
    ),
    "scope.vocabularies": (
        _("Vocabularies"),
        _("with structured data: only pages with one of these, such as schema; one per line"),
    ),
    "scope.open_graph": (
        _("Open Graph alone"),
        _("with structured data: also keep pages whose only data are those that social networks show"),
    ),
    "politeness.delay": (
        _("Pause between requests"),
        _("between the end of an answer and the next request to the same host, such as 1 s"),
    ),
    "politeness.delays": (_("Pauses of some hosts"), _("one per line: pattern = pause, such as *.a.br = 5 s")),
    "politeness.delay_factor": (
        _("Pause by duration"),
        _("the pause is at least so many times the duration of the last answer"),
    ),
    "politeness.delay_max": (_("Longest pause"), _("the most that a Crawl-delay or a slow answer may ask for")),
    "politeness.backoff": (_("Pause after a failure"), _("doubles with each failure, up to a day")),
    "politeness.per_ip": (_("One host per address"), _("hosts that share an IP address are treated as one")),
    "politeness.robots": (_("robots.txt"), _("ignore it only on hosts of your own")),
    "politeness.user_agent": (_("User agent"), _("the name of the crawler in every request; webmasters see it")),
    "politeness.contact": (_("Contact"), _("a page or an address where webmasters reach you; sent with every request")),
    "politeness.email": (_("E-mail"), _("sent with every request as From")),
    "fetch.time_max": (_("Longest transfer"), _("such as 10 min")),
    "fetch.connect_timeout": (_("Time to connect"), _("such as 20 s")),
    "fetch.encodings": (
        _("Compression"),
        _("what servers may send; none: uncompressed. Many archive tools cannot replay zstd"),
    ),
    "fetch.stall_timeout": (_("Longest silence"), _("a transfer that brings nothing for so long is given up")),
    "fetch.hosts_at_once": (_("Hosts at once"), _("that one worker visits")),
    "fetch.redirects_max": (_("Redirects"), _("the longest chain")),
    "fetch.retries": (_("Retries"), _("of a URL, after a failure that may pass")),
    "fetch.host_failures_max": (_("Failures of a host"), _("in a row, with pauses between them; then it is given up")),
    "fetch.bandwidth": (_("Bandwidth"), _("bytes a second in all, such as 2 MB; empty: no limit")),
    "fetch.host_bandwidth": (_("Bandwidth of one host"), _("bytes a second, such as 200 KB; empty: no limit")),
    "fetch.sitemaps": (_("Sitemaps"), _("follow those that robots.txt announces")),
    "fetch.feeds": (_("Feeds"), _("follow the RSS and Atom feeds that pages announce")),
    "requisites.page_max": (
        _("URLs of one page"),
        _("with faithful copies: the most images, styles, scripts, fonts and frames of a page, or of a style or frame"),
    ),
    "requisites.size_max": (_("Largest image, film ..."), _("such as 20 MB; larger ones are not kept")),
    "requisites.steps_max": (_("Steps from a page"), _("frames, imports of styles and redirects in a row")),
    "requisites.robots": (_("robots.txt for these"), _("ignore it only where you may, such as for legal deposit")),
    "requisites.again": (
        _("Look again after"),
        _("when a page has changed, what it needs is fetched again if it was fetched longer ago, such as 1 day"),
    ),
    "render.when": (_("Render"), _("let a browser without a network run the scripts of pages; it needs Chromium")),
    "render.hosts": (_("Hosts to render"), _("host patterns, one per line; empty: all hosts in scope")),
    "render.time_max": (_("Time for one page"), _("with its pauses between requests, such as 60 s")),
    "render.pages_at_once": (_("Pages at once"), _("that one worker renders; a browser takes some 300 MB")),
    "strategy.order": (_("Order"), _("which new URLs are visited first")),
    "strategy.favour": (_("First"), _("host patterns, one per line, that are visited before others")),
    "strategy.penalise": (_("Last"), _("URL patterns, one per line, that are visited after others")),
    "strategy.table_max": (_("Sites in the table"), _("of breadth: the most")),
    "strategy.cycle": (_("Sites of a cycle"), _("of breadth: how many are chosen at a time")),
    "strategy.weights.length": (_("Weight of length"), _("of breadth: what a short URL is worth")),
    "strategy.weights.block": (_("Weight of blocks"), _("of breadth: what few steps in the path are worth")),
    "strategy.weights.favour": (_("Weight of favour"), _("of breadth: what a favoured host is worth")),
    "strategy.weights.penalty": (_("Weight of penalty"), _("of breadth: what a penalised URL costs")),
    "revisit.policy": (_("Revisit policy"), _("when pages are visited again; never: the collection is crawled once")),
    "revisit.rate": (_("Revisits a day"), _("the most; empty: what politeness allows")),
    "revisit.share": (
        _("Share of revisits"),
        _("of a host's visits, while new URLs wait there; more than 0, at most 1"),
    ),
    "revisit.horizon": (_("Horizon"), _("of the policies that plan: psp, mp2, m-wolf")),
    "revisit.interval_min": (_("Shortest interval"), _("between two visits of a page")),
    "revisit.grace": (_("Grace"), _("a page that is gone is requested once more after this time")),
    "revisit.weigh": (_("Weight of pages"), _("in-links, PageRank, or all equal")),
    "revisit.change": (_("A change is"), _("another text, menus included, or another main content")),
    "archive.retention": (
        _("Versions kept in the archive"),
        _("all; last 10; one per day, week, month or year: others are removed by tarrafa compact"),
    ),
    "schedule.start": (_("Start date"), _("not before this date and time, such as 2026-12-01 or 2026-12-01T03:00")),
    "schedule.deadline": (_("Deadline"), _("not after this date and time, such as 2026-12-31 or 2026-12-31T23:59")),
    "schedule.every": (_("Repeat"), _("daily, 7 days, 6 hours, or five fields as cron has them, such as 0 3 * * 1")),
    "schedule.timezone": (_("Time zone"), _("of these dates, such as America/Sao_Paulo")),
    "notify.webhook": (_("Webhook"), _("an http or https address that receives notices")),
    "notify.email": (_("E-mail to"), _("one address per line")),
    "notify.events": (_("Notify when"), _("the events that are notified")),
    "notify.stalled": (_("Stalled after"), _("this time without a visit while it runs")),
    "network.connect_to": (_("Connect to"), _("one per line: pattern = address:port, such as *.test = 127.0.0.1:8090")),
    "network.allow_private": (_("Private addresses"), _("visit hosts that are not on the public Internet")),
    "network.tls": (_("Certificates"), _("strict, or accept invalid ones and record the reason")),
    "network.suffixes": (_("Domain suffixes"), _("beside those of the public list, one per line")),
    "network.dns": (
        _("Name servers"),
        _("instead of the system's, one address per line, such as 9.9.9.9 or 9.9.9.9:5353"),
    ),
    "network.proxy": (
        _("Proxy"),
        _("the proxy of all requests, such as http://proxy:3128 or socks5h://localhost:1080"),
    ),
    "identity.fold_case": (_("Ignore case in paths"), _("fixed when the collection is created")),
    "identity.strip_slash": (_("Ignore a slash at the end"), _("fixed when the collection is created")),
}
CHOICE_LABELS = {  # by field and value
    ("scope.keep", "all"): _("all pages"),
    ("scope.keep", "structured"): _("only pages with structured data"),
    ("scope.keep", "faithful"): _("all pages, with what they need to be shown"),
    ("requisites.robots", "obey"): _("obey"),
    ("requisites.robots", "ignore"): _("ignore"),
    ("scope.syntaxes", "rdfa"): _("RDFa"),
    ("scope.syntaxes", "microdata"): _("microdata"),
    ("scope.syntaxes", "jsonld"): _("JSON-LD"),
    ("politeness.robots", "obey"): _("obey"),
    ("politeness.robots", "ignore"): _("ignore"),
    ("fetch.encodings", "gzip"): _("gzip"),
    ("fetch.encodings", "deflate"): _("deflate"),
    ("fetch.encodings", "br"): _("brotli"),
    ("fetch.encodings", "zstd"): _("zstd"),
    ("render.when", "never"): _("never"),
    ("render.when", "auto"): _("pages that have little text without it"),
    ("render.when", "always"): _("all pages with scripts"),
    ("strategy.order", "breadth"): _("breadth: new sites first"),
    ("strategy.order", "backlinks"): _("what most pages link to"),
    ("strategy.order", "fifo"): _("what was found first"),
    ("strategy.order", "lifo"): _("what was found last"),
    ("strategy.order", "random"): _("any"),
    ("revisit.policy", "index"): _("by visit value"),
    ("revisit.policy", "psp"): _("plan: psp"),
    ("revisit.policy", "mp2"): _("plan: mp2"),
    ("revisit.policy", "m-wolf"): _("plan: m-wolf"),
    ("revisit.policy", "uniform"): _("all equally often"),
    ("revisit.policy", "proportional"): _("as often as it changes"),
    ("revisit.policy", "rateupdate"): _("by the observed rate"),
    ("revisit.policy", "never"): _("never"),
    ("revisit.weigh", "links"): _("by in-links"),
    ("revisit.weigh", "rank"): _("by PageRank"),
    ("revisit.weigh", "equal"): _("all equal"),
    ("revisit.change", "text"): _("another text"),
    ("revisit.change", "content"): _("another main content"),
    ("network.tls", "strict"): _("strict"),
    ("network.tls", "accept"): _("accept, and record"),
    ("notify.events", "started"): _("it starts"),
    ("notify.events", "finished"): _("it finishes"),
    ("notify.events", "failed"): _("it fails"),
    ("notify.events", "stalled"): _("it stalls"),
}
