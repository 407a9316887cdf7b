"""Looks up a URL in the link graph and the archive of this machine, for its explanation.

Promises: reads only. Where this machine has no graph, or the record of a page cannot be read, the facts say so: they
are None or empty, and nothing is claimed. Other machines may know more.
"""

import msgspec

from tarrafa.archive.warc_reader import read_entry
from tarrafa.errors import DataError
from tarrafa.graph.graph_writer import REDIRECT
from tarrafa.graph.reader import GraphReader
from tarrafa.model import RenderFacts, Status, SyntaxUse, UsageStatement, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory


class GraphFacts(msgspec.Struct, frozen=True):
    """What this machine's archive says about a URL of a collection."""

    in_links: int | None = None  # pages that link to it; None: there is no graph
    redirect: str = ""  # where the URL redirects to, by HTTP or by meta refresh
    noindex: bool = False  # its newest text says noindex
    cut_statements: bool = False  # its newest text has more statements than are kept
    cut_text: bool = False  # its newest text is longer than is kept
    usage: tuple[UsageStatement, ...] = ()  # what the publisher says about the use of its newest text
    rendered: RenderFacts | None = None  # how its newest text was made by scripts
    requisites: tuple[str, ...] = ()  # what it needs to be shown
    syntaxes: tuple[SyntaxUse, ...] | None = None  # the data of a page without the wanted ones; None: not known here


def graph_facts(data: DataDirectory, url: str, collection: str) -> GraphFacts:
    """Facts about a canonical URL that is not taken down."""
    try:
        graph = GraphReader(data)
    except DataError:
        return GraphFacts()
    node = graph.node(url, collection)
    if node is None:
        return GraphFacts(in_links=0)
    first = next(iter(graph.outgoing(url, collection, limit=1)[0]), None)
    record = newest_record(data, graph, url, collection)
    page = record.page if record is not None else None
    unwanted = record is not None and record.outcome.status == Status.NOT_STRUCTURED
    return GraphFacts(
        node.in_links,
        first.url if first is not None and REDIRECT in first.rel.split() else "",
        page is not None and page.robots.noindex,
        page is not None and page.cut_statements,
        page is not None and page.cut_text,
        page.usage if page is not None else (),
        record.rendered if record is not None else None,
        record.requisites if record is not None else (),
        page.syntaxes if page is not None and unwanted else None,
    )


def newest_record(
    data: DataDirectory, graph: GraphReader | None, url: str, collection: str | None
) -> VisitRecord | None:
    """The record of the newest text, or of a newer visit that found no wanted data; None if there is none any more, or
    if it cannot be read."""
    where = graph.archive_position(url, collection) if graph is not None else None
    if where is None:
        return None
    try:
        entry = read_entry(data.archive, *where)
    except (DataError, OSError):
        return None
    record = None if entry is None else entry.record
    return record if record is not None and record.url == url else None
