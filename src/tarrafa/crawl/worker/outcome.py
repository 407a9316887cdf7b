"""Turns the response to a visit into its outcome, its archive record and the URLs it discovers.

The input is a visit, its response and the result of the parser. The output is the outcome, the archive record, and the
discovered URLs. A page is judged, and described, by the memory of its host (`host_memory`).
Promises: no I/O and no clock; a page is counted in the `HostMemory` that is given, and nothing else is changed. The
worker waits, parses and writes.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcExchange, sha1_digest
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.fetcher import build_exchange, user_agent
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJobResult
from tarrafa.fetch.http_message import (
    FetchRequest,
    FetchResponse,
    ResponseHead,
    retry_after_s,
)
from tarrafa.fetch.robots import RobotsRules
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.i18n import Message, message
from tarrafa.model import BUSY, GONE, REDIRECTS, Listing, Outcome, Page, Status, UrlRole, Visit, VisitRecord
from tarrafa.parse.robots_meta_usage import (
    USAGE_FIELDS,
    combine_robots,
    combine_usage,
    robots_from_header,
    usage_from_header,
)
from tarrafa.parse.url import UrlIdentity

if TYPE_CHECKING:
    from tarrafa.crawl.render.render_policy import RenderedPage

SERVER_CHARS_MAX = 100  # of the Server header
REFRESH_S_MAX = 5.0  # a page that refreshes later gives its readers time to read it
OWN_TEXT_MIN = 200  # characters of text outside links
MOVED_TEXT_MAX = 600  # the same of a text that speaks of a redirect
FUTURE_S_MAX = 86_400.0  # a page may date itself so far after its visit: clocks differ, and days begin elsewhere

_speaks_of_redirect = re.compile(
    r"redire[ckz]|redirig|weiterge?leitet|weiterleitung|umgeleitet|doorgestuurd|reindirizz|перенаправ|リダイレクト|重定向"
    r"|\bmoved\b|\bnew (?:address|location|url)\b|\bhas a new\b|click here|clique aqui|haga clic|haz clic|cliquez ici"
    r"|hier klicken|klicken sie hier|clicca qui|novo endere[cç]o|nueva direcci[oó]n|mudou|mudamos|automatically"
    r"|automaticamente|autom[aá]ticamente|automatiquement|automatisch|please wait|aguarde",
    re.IGNORECASE,
).search


@dataclass(slots=True)
class FinishedVisit:
    """A visit that is over: its archive record, its report, and its discovered URLs."""

    visit: Visit
    record: VisitRecord
    exchange: WarcExchange | None = None
    discovered: list[DiscoveredUrl] = field(default_factory=list)
    listing: Listing | None = None  # recorded as a note: no other record has its entries


def refuse_visit(
    visit: Visit, name: str, status: int, at: float, error: Message | str = "", *, requested: bool = False
) -> FinishedVisit:
    """Finish a visit that had no request, or no usable response."""
    outcome = Outcome(status, at, error=error, role=visit.role, requested=requested)
    return FinishedVisit(visit, VisitRecord(name, visit.url, visit.number, visit.depth, outcome, visit.redirects))


def conclude(
    visit: Visit,
    request: FetchRequest,
    response: FetchResponse,
    collection: Collection,
    admission: Admission,
    at: float,
    body: DecodedBody | None = None,
    parsed: ParseJobResult | None = None,
    memory: HostMemory | None = None,
    rules: RobotsRules | None = None,
    rendered: "RenderedPage | None" = None,
) -> FinishedVisit:
    """Conclude a visit. `at` is when the response was complete; `parsed` is the result of `body.job`, if there was
    one, or of the `rendered` page; `rules`: the robots.txt in force. The server's validators say nothing about what
    scripts make: a rendered page is never asked for with them."""
    if visit.role == UrlRole.REQUISITE:
        return _conclude_requisite(visit, request, response, collection, admission, at, body, parsed)
    made = rendered.body if rendered is not None else b""
    status, error = (body.status, body.error) if body is not None else (response.status, response.error)
    page = None
    if parsed is not None:
        page, status, error = _classify_page(visit, parsed, collection, admission, memory)
        page = without_future_dates(page, at) if page is not None else None
    location = _redirect_target(visit, response, admission, status, page)
    if location and visit.redirects >= collection.fetch.redirects_max:
        status = Status.REDIRECTS_EXCEEDED
    kept = status == 200 and page is not None and not location
    if kept and page is not None:
        page = with_usage(page, response.head, collection, rules)
    listing = parsed.listing if parsed is not None else None
    whole = kept or (listing is not None and status == 200)
    payload = sha1_digest(response.raw_body) if whole else ""
    followed = (
        page is not None and not _is_copy(page, visit, status) and (kept or not admission.is_outside_hosts(visit.url))
    )
    content_id = ""
    if parsed is not None and parsed.page is not None:
        from tarrafa.parse.fingerprint import compared_id  # loaded with the parser

        content_id = compared_id(parsed.page, collection.revisit.change)
    outcome = Outcome(
        status,
        at,
        kept=kept,
        type=response.head.content_type or (body.type if body is not None else ""),
        length=len(response.raw_body),
        elapsed_s=round(response.elapsed_s, 4),
        content_id=content_id,
        etag=None if made else response.head.get("etag")[:500] or None,
        last_modified=None if made else response.head.get("last-modified")[:100] or None,
        location=location,
        address=response.address,
        retry_after_s=retry_after_s(response.head, at) if status in BUSY else 0.0,
        error=error,
        tls=response.tls,
        role=visit.role,
        payload=payload,
        external=admission.count_external_links(page, visit) if page is not None and followed else 0,
        grace=status in GONE and visit.gone == 0,
        server=_server_software(response.head),
        announced=visit.announced if kept else 0.0,
        changed=kept and page is not None and visit.content_id not in (None, "", content_id),
        same_since=visit.archived if kept and payload == visit.payload and not made else 0.0,
    )
    if page is not None and not kept:  # its links and status are kept, its text is not
        page = replace(page, text="", statements="")
    facts = rendered.facts if rendered is not None else None
    needs = page.requisites if page is not None and kept else ()
    record = VisitRecord(
        collection.name, visit.url, visit.number, visit.depth, outcome, visit.redirects, page, facts, requisites=needs
    )
    exchange = _exchange_to_archive(visit, request, response, outcome, whole=whole)
    if made and kept and exchange is not None:
        exchange = replace(exchange, rendered=made)
    discovered = list(discovered_urls(record, visit, listing, admission))
    is_new_listing = listing is not None and exchange is not None and not exchange.is_revisit_record
    return FinishedVisit(visit, record, exchange, discovered, listing if is_new_listing else None)


def _conclude_requisite(
    visit: Visit,
    request: FetchRequest,
    response: FetchResponse,
    collection: Collection,
    admission: Admission,
    at: float,
    body: DecodedBody | None,
    parsed: ParseJobResult | None,
) -> FinishedVisit:
    """Conclude the visit of a requisite: its bytes are archived, whatever they are, unless its server forbids to show
    them from an archive. If it cannot be decoded or parsed, browsers may do better; only its requisites are missing."""
    head, status = response.head, response.status
    robots = head.joined("x-robots-tag", "\n")
    is_shy = bool(robots) and combine_robots([robots_from_header(robots)]).noarchive
    payload = sha1_digest(response.raw_body) if status == 200 and not is_shy else ""
    location = _location(visit, response, admission) if status in REDIRECTS else ""
    if location and visit.redirects >= collection.requisites.steps_max:
        status = Status.REDIRECTS_EXCEEDED
    outcome = Outcome(
        status,
        at,
        type=head.content_type,
        length=len(response.raw_body),
        elapsed_s=round(response.elapsed_s, 4),
        etag=head.get("etag")[:500] or None,
        last_modified=head.get("last-modified")[:100] or None,
        location=location,
        address=response.address,
        retry_after_s=retry_after_s(head, at) if status in BUSY else 0.0,
        error=response.error or (body.error if body is not None else "") or (parsed.refusal if parsed else ""),
        tls=response.tls,
        role=visit.role,
        payload=payload,
        server=_server_software(head),
        changed=bool(payload and visit.payload) and payload != visit.payload,
        same_since=visit.archived if payload and payload == visit.payload else 0.0,
    )
    needs = parsed.requisites if parsed is not None and payload else ()
    record = VisitRecord(
        collection.name, visit.url, visit.number, visit.depth, outcome, visit.redirects, requisites=needs
    )
    exchange = _exchange_to_archive(visit, request, response, outcome, whole=bool(payload))
    return FinishedVisit(visit, record, exchange, list(discovered_urls(record, visit, None, admission)))


def _exchange_to_archive(
    visit: Visit, request: FetchRequest, response: FetchResponse, outcome: Outcome, *, whole: bool
) -> WarcExchange | None:
    """The bytes to archive: of kept pages, of redirects, of documents that cannot be parsed (others may read them, or
    we one day), and of pages unchanged since they were archived."""
    if whole:
        return build_exchange(request, response, outcome.at, outcome.payload, visit)
    if outcome.status in REDIRECTS or _is_unparsed_document(visit, response, outcome.status):
        return build_exchange(request, response, outcome.at)
    if outcome.status == 304 and visit.archived and visit.payload:  # else an external crawler fetched it: no bytes
        return build_exchange(request, response, outcome.at, visit.payload, visit)
    return None


def _is_unparsed_document(visit: Visit, response: FetchResponse, status: int) -> bool:
    """Whether a whole document of a wanted type was fetched and could not be decoded or parsed. Only its header can say
    that it is not to be shown from an archive: then it is not archived."""
    if response.status != 200 or visit.role != UrlRole.PAGE or status not in (Status.INVALID_RESPONSE, Status.HOSTILE):
        return False
    robots = response.head.joined("x-robots-tag", "\n")
    return not robots or not combine_robots([robots_from_header(robots)]).noarchive


def discovered_urls(
    record: VisitRecord, visit: Visit, listing: Listing | None, admission: Admission
) -> Iterator[DiscoveredUrl]:
    """The URLs that a visit leads to, from its record and from the entries of its listing, if there is one."""
    page, outcome = record.page, record.outcome
    if outcome.location and outcome.status != Status.REDIRECTS_EXCEEDED:
        target = admission.admit_redirect(outcome.location, visit)
        if target is not None:
            yield target
    beyond = admission.is_outside_hosts(visit.url) and not outcome.kept
    if page is not None and not beyond and not _is_copy(page, visit, outcome.status):
        yield from admission.admit_links(page, visit, outcome.location, kept=outcome.kept)
    if listing is not None:
        yield from admission.admit_listing(listing, visit)
    if record.requisites:
        yield from admission.admit_requisites(record.requisites, visit, outcome.at if outcome.changed else 0.0)


def _classify_page(
    visit: Visit, parsed: ParseJobResult, collection: Collection, admission: Admission, memory: HostMemory | None
) -> tuple[Page | None, int, Message | str]:
    """Decide whether the collection keeps a page, and with which status. Beyond its hosts only the language decides."""
    page, languages = parsed.page, collection.scope.languages
    if parsed.refusal:
        return None, Status.HOSTILE if parsed.hostile else Status.INVALID_RESPONSE, parsed.refusal
    if parsed.listing is not None and not parsed.listing.kind:
        return None, Status.INVALID_RESPONSE, message("neither a sitemap nor a feed")
    if page is None:
        return None, 200, ""
    if memory is not None:
        page = memory.describe(page)
    if languages and page.language not in languages:
        return (
            page,
            Status.LANGUAGE_OUTSIDE if admission.is_outside_hosts(visit.url) else Status.LANGUAGE_NOT_WANTED,
            "",
        )
    if memory is not None and (copy := memory.traps.check_page(page, visit)):
        return page, copy, ""
    return page, 200 if admission.wants_data_of(page) else Status.NOT_STRUCTURED, ""


def without_future_dates(page: Page, at: float) -> Page:
    """The page as of a visit at that time: the parser knows no clock."""
    last = at + FUTURE_S_MAX
    if page.published is not None and page.published.at > last:
        page = replace(page, published=None)
    if page.modified is not None and page.modified.at > last:
        page = replace(page, modified=None)
    return page


def with_usage(page: Page, head: ResponseHead, collection: Collection, rules: RobotsRules | None) -> Page:
    """The page with what header and robots.txt say about its use, at the time of the visit (draft-ietf-aipref-attach,
    "When Preferences Apply"); the parser has read what the page says itself."""
    by_host = []
    if rules is not None and rules.states_usage:
        by_host = rules.usage(user_agent(collection), page.url)
    fields = [one for one in head.fields if one[0] in USAGE_FIELDS]
    if not fields:
        return replace(page, usage=combine_usage(page.usage, by_host)) if by_host else page
    robots = head.joined("x-robots-tag", "\n")
    directives = robots_from_header(robots, collection.politeness.user_agent.partition("/")[0]) if robots else ()
    usage = combine_usage(page.usage, usage_from_header(fields, directives), by_host)
    return replace(page, usage=usage) if usage != page.usage else page


def _is_copy(page: Page, visit: Visit, status: int) -> bool:
    """Whether it is one more copy, or has the text of the page that linked to it: it leads nowhere new."""
    return status == Status.COPY or (bool(visit.parent) and bytes.fromhex(page.content_id[:16]) == visit.parent)


def _redirect_target(
    visit: Visit, response: FetchResponse, admission: Admission, status: int, page: Page | None
) -> str:
    """Target of a redirect, or of a page that only sends its readers on; empty: none."""
    if page is not None and status == 200 and sends_readers_on(page):
        return page.refresh
    return _location(visit, response, admission) if status in REDIRECTS else ""


def sends_readers_on(page: Page) -> bool:
    """Whether the page is a redirect: it refreshes at once to another page, and has no content of its own.

    On a page with content a refresh is a link: a splash page, a news portal that reloads itself, a page behind a login.
    What counts as content is the text outside links: from OWN_TEXT_MIN letters on, and from MOVED_TEXT_MAX on where the
    text speaks of a redirect.
    """
    return bool(page.refresh) and page.refresh_s < REFRESH_S_MAX and page.refresh != page.url and not _has_content(page)


def _has_content(page: Page) -> bool:
    own = len(page.text) - sum(len(link.anchor) for link in page.links)
    if own < OWN_TEXT_MIN:
        return False
    return own >= MOVED_TEXT_MAX or _speaks_of_redirect(page.text) is None


def _location(visit: Visit, response: FetchResponse, admission: Admission) -> str:
    """Target of a redirect; servers write raw UTF-8 there, which HTTP libraries show as Latin-1."""
    text, identity = response.head.get("location"), admission.identity
    if visit.role == UrlRole.REQUISITE:
        identity = UrlIdentity()  # as the browser will ask for it
    with contextlib.suppress(UnicodeEncodeError, UnicodeDecodeError):
        text = text.encode("latin-1").decode("utf-8")
    return identity.canonicalize(text, visit.url) or "" if text else ""


def _server_software(head: ResponseHead) -> str:
    """The Server header as one printable line."""
    return "".join(filter(str.isprintable, head.get("server")[:SERVER_CHARS_MAX])).strip()
