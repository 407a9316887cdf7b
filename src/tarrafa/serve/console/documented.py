"""What could be asked before there was a console?

The addresses that search and relations have always had, for the document at /api/openapi.json: they are answered where
they always were (`serve/app`), and stay there. Their parameters are described here, once more than they are read;
a test asks every one of them as the document says.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.crawl.about import PageTold, SiteTold
from tarrafa.frontier.protocol import Overview
from tarrafa.model import SearchResult
from tarrafa.search.question import DEPTH_MAX, HITS_MAX
from tarrafa.serve.console.api import Documented
from tarrafa.serve.console.entry import Need
from tarrafa.serve.formats import SUGGESTIONS_TYPE
from tarrafa.serve.queries import QueryReport
from tarrafa.serve.relations import LISTED_MAX
from tarrafa.serve.things import NamesTold, ThingsTold, ThingTold

Switch = Annotated[Literal["", "0", "1"], Meta(description="1: on")]
Offset = Annotated[int, Meta(ge=0, le=1_000_000, description="how many to skip")]
Few = Annotated[int, Meta(ge=1, le=HITS_MAX, description="how many")]
Many = Annotated[int, Meta(ge=1, le=LISTED_MAX, description="how many of each list")]
Text = Annotated[str, Meta(max_length=1_000)]
Collection = Annotated[str, Meta(max_length=100, description="only this collection")]


class SearchAsked(msgspec.Struct, frozen=True):
    """A search: docs/search-api.md."""

    q: Annotated[str, Meta(max_length=1_000, description="the search, in the query language")]
    n: Few = 10
    offset: Annotated[int, Meta(ge=0, le=DEPTH_MAX, description="how many to skip")] = 0
    all: Switch = ""
    natural: Switch = ""
    expand: Switch = ""
    recent: Switch = ""
    sort: Literal["", "relevance", "date", "links"] = ""
    lang: Annotated[str, Meta(max_length=20, description="pt, en, …")] = ""
    time: Literal["", "day", "week", "month", "year"] = ""
    after: Annotated[str, Meta(max_length=10, description="a date: changed from it on")] = ""
    before: Annotated[str, Meta(max_length=10, description="a date: changed before it")] = ""
    collection: Collection = ""
    copies: Switch = ""
    crowded: Switch = ""
    like: Annotated[Text, Meta(description="a URL: only it and its copies")] = ""
    related: Annotated[Text, Meta(description="a URL: pages that say similar things")] = ""


class SuggestAsked(msgspec.Struct, frozen=True):
    """How a text may go on."""

    q: Text


class PageAsked(msgspec.Struct, frozen=True):
    """A page."""

    url: Text
    collection: Collection = ""
    n: Many = 50
    offset: Offset = 0


class SiteAsked(msgspec.Struct, frozen=True):
    """A site or a host."""

    name: Text
    collection: Collection = ""
    n: Many = 50
    offset: Offset = 0


class ThingsAsked(msgspec.Struct, frozen=True, rename={"of_class": "class", "not_class": "not", "kind": "list"}):
    """Things, or with `list` what they can be chosen by: docs/data.md."""

    q: Annotated[Text, Meta(description="words in any property")] = ""
    vocabulary: Text = ""
    of_class: Text = ""
    not_class: Text = ""
    where: Annotated[list[Text], Meta(max_length=8, description="a condition: price<50")] = []
    collection: Collection = ""
    kind: Literal["", "vocabularies", "classes", "properties"] = ""
    filter: Annotated[str, Meta(max_length=200, description="with `list`: a part of a name")] = ""
    n: Few = 10
    offset: Offset = 0


class ThingAsked(msgspec.Struct, frozen=True):
    """A thing, by its key."""

    key: Annotated[str, Meta(max_length=4_000)]


def documented(has_status: bool) -> list[Documented]:
    """All of it. The crawl's state is there where somebody can tell it."""
    suggestions: Any = tuple[str, list[str]]
    found = [
        Documented("/search.json", "Search the pages that were crawled", SearchAsked, SearchResult, codes=(400, 503)),
        Documented("/suggest", "How a text may go on", SuggestAsked, suggestions, SUGGESTIONS_TYPE, codes=(503,)),
        Documented("/page.json", "All that is known of a page", PageAsked, PageTold, codes=(400, 404, 503)),
        Documented("/site.json", "All that is known of a site", SiteAsked, SiteTold, codes=(400, 404, 503)),
        Documented("/data.json", "What pages say of things", ThingsAsked, (ThingsTold, NamesTold), codes=(400, 503)),
        Documented("/thing.json", "All that is said of a thing", ThingAsked, ThingTold, codes=(400, 404, 503)),
        Documented("/queries.json", "What people ask", None, QueryReport, codes=(403, 503)),
        Documented("/healthz", "Whether we live", None, None, "text/plain; charset=utf-8", codes=()),
    ]
    if has_status:
        state = Documented("/status.json", "The crawl's state", None, Overview, codes=(503,), need=Need.VIEWER)
        found.append(state)
    return found
