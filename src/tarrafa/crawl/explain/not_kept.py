"""Says why a URL that was visited or refused is not kept, or is kept and not in the search index, or not whole.

Promises: pure; every state without a page has a reason, by the meaning of its status or by a sentence here.
"""

from tarrafa.config import Collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.explain.graph_lookup import GraphFacts
from tarrafa.crawl.scope.traps import trap_reason
from tarrafa.frontier.messages import UrlFacts
from tarrafa.i18n import Message, joined, message
from tarrafa.model import REDIRECTS, Status
from tarrafa.parse.rdf.nquads import STATEMENTS_LENGTH_MAX, STATEMENTS_MAX
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX

KEPT_REASONS = (
    (message("kept, but not in the search index: the page says noindex"), "noindex"),
    (
        message(
            "kept, but not all of its structured data: at most {statements} statements and {characters} characters of "
            "a page are kept",
            statements=STATEMENTS_MAX,
            characters=STATEMENTS_LENGTH_MAX,
        ),
        "cut_statements",
    ),
    (
        message("kept, but not all of its text: at most {characters} characters are kept", characters=TEXT_LENGTH_MAX),
        "cut_text",
    ),
)


def not_kept_reason(collection: Collection, known: UrlFacts, graph: GraphFacts) -> Message | str:
    """The reason, where the status alone does not say it; empty where there is nothing to say."""
    if known.state == "fetched":
        return joined([reason for reason, applies in KEPT_REASONS if getattr(graph, applies)])
    if known.status is None:
        return ""
    if known.status < 0:
        return _refusal(collection, known, graph)
    if known.state != "dropped":
        return ""
    return _response(known.status, known.role, graph.redirect)


def _response(status: int, role: str, target: str) -> Message:
    """Why a response with an HTTP status is not kept."""
    if status in REDIRECTS:
        return message("it redirects to {target}", target=target) if target else message("it redirects elsewhere")
    if status != 200:
        return message("only a response with status 200 is kept")
    if role == "requisite":
        return message("archived as a requisite: pages need it to be shown")
    if role != "page":
        return message("a sitemap or feed: its URLs are read, and it is not kept as a page")
    if target:
        return message("the page sends its readers on to {target} (meta refresh)", target=target)
    return message("the page sends its readers on (meta refresh)")


def _refusal(collection: Collection, known: UrlFacts, graph: GraphFacts) -> Message | str:
    """The setting behind one of our own statuses."""
    scope, status = collection.scope, known.status
    if status == Status.TRAP:
        return trap_reason(known.url) or message("URLs of the same pattern brought nothing new for a long time")
    if status == Status.COPY:
        return message(
            "copies_max = {copies}, alike_max = {alike}: other pages said the same before",
            copies=scope.copies_max,
            alike=scope.alike_max,
        )
    if status == Status.NOT_STRUCTURED:
        return _unwanted_data(scope, graph)
    if status in (Status.LANGUAGE_OUTSIDE, Status.LANGUAGE_NOT_WANTED):
        return f"[scope] languages = {', '.join(scope.languages)}"
    settings = {
        Status.HOST_FULL: f"host_pages_max = {scope.host_pages_max:,}, site_hosts_max = {scope.site_hosts_max:,}",
        Status.TYPE_NOT_WANTED: f"[scope] types = {', '.join(scope.types)}",
        Status.TOO_LARGE: f"[scope] size_max = {scope.size_max:,}",
        Status.REDIRECTS_EXCEEDED: f"[fetch] redirects_max = {collection.fetch.redirects_max}",
    }
    if known.role == "requisite":
        limits = collection.requisites
        settings[Status.TOO_LARGE] = f"[requisites] size_max = {limits.size_max:,}"
        settings[Status.REDIRECTS_EXCEEDED] = f"[requisites] steps_max = {limits.steps_max}"
    return settings.get(Status(status), "") if status in set(Status) else ""


def _unwanted_data(scope: ScopeConfig, graph: GraphFacts) -> Message | str:
    """Which structured data the collection keeps, and which the page has, if its record is on this machine."""
    keys = {"keep": scope.keep, "syntaxes": ", ".join(scope.syntaxes)}
    if scope.vocabularies:
        keys["vocabularies"] = ", ".join(map(shorten_iri, scope.vocabularies))
    else:
        keys["open_graph"] = str(scope.open_graph).lower()
    settings = f"[scope] {'; '.join(f'{key} = {value}' for key, value in keys.items())}"
    if graph.syntaxes is None:
        return settings
    if not graph.syntaxes:
        return message("{settings}; the page has no structured data", settings=settings)
    found = "; ".join(f"{use.syntax} ({', '.join(map(shorten_iri, use.vocabularies))})" for use in graph.syntaxes)
    return message("{settings}; the page has {found}", settings=settings, found=found)
