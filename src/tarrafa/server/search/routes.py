"""Routes of search: results page, JSON, CSV, RSS, Atom, OpenSearch, suggestions, score explanation, help.

    /            the first page, or results      /search.json  .csv  .rss  .atom   the same for programs
    /why         the parts of a score            /opensearch.xml                   how a browser adds this search
    /help        how to search                   /suggest                          completions of a text

Promises: one request gives the same hits in every format. Queries are logged where there is a log (`query_log`), for
the first page of results only, and without the client.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from time import monotonic
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, ShardUnavailable
from tarrafa.model import SearchResult
from tarrafa.parse.url import canonical
from tarrafa.search.request import HITS_MAX, RESULT_DEPTH_MAX, SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.server.jinja_environment import PER_PAGE, ScoreExplanation, hit_views, results_pager
from tarrafa.server.page_responses import NO_URL, PageResponses, UnknownResource, json_response
from tarrafa.server.search import feeds
from tarrafa.server.search.params import SearchParams, filter_menus, integer_param, page_number_param, search_switches
from tarrafa.server.search.result_cache import CACHE_AGE_MAX_S, IndexVersionSource, SearchResultCache

FEED_HITS = 20
CSV_HITS = HITS_MAX
SUGGESTIONS = 8
SUGGEST_CHARS_MAX = 100

RecordQuery = Callable[[str, int], None]  # a text and how many pages it found
Now = Callable[[], float]


class SearchRoutes:
    """The handlers, and what they share."""

    def __init__(
        self, searcher: Searcher, replies: PageResponses, moment: IndexVersionSource, note: RecordQuery | None, now: Now
    ) -> None:
        self._searcher, self._replies, self._moment = searcher, replies, moment
        self._answers = SearchResultCache(searcher.search, moment)
        self._note, self._now = note, now
        self._languages: tuple[object, float, list[str]] = (None, 0.0, [])

    def routes(self) -> list[Route]:
        return [
            Route("/", self.search),
            Route("/search.json", self.as_json),
            Route("/search.csv", self.as_csv),
            Route("/search.rss", self.as_rss),
            Route("/search.atom", self.as_atom),
            Route("/opensearch.xml", self.opensearch),
            Route("/suggest", self.suggest),
            Route("/why", self.why),
            Route("/help", self.help),
        ]

    # -- for people ------------------------------------------------------------------------------------------------

    def search(self, request: Request) -> Response:
        asked, page = SearchParams.from_query(request.query_params), page_number_param(request.query_params, "page")
        if asked.is_empty:
            return self._replies.html(request, "home.html", documents=self._documents())
        offset = (page - 1) * PER_PAGE
        result = self._search(asked, PER_PAGE, offset, people=request.method == "GET")
        _ = self._replies.translator(request)
        return self._replies.html(
            request,
            "search_results.html",
            result=result,
            hits=hit_views(result, asked, offset),
            numbers=results_pager(page, result.total),
            menus=filter_menus(asked, _, self._indexed_languages()),
            switches=search_switches(asked, _),
            depth_max=RESULT_DEPTH_MAX,
            typed_url=canonical(asked.q) if _is_url(asked.q.strip()) else None,
        )

    def why(self, request: Request) -> Response:
        """How a page came to its score."""
        asked, url = SearchParams.from_query(request.query_params), request.query_params.get("url", "").strip()
        if not url:
            raise UnknownResource(NO_URL)
        parts = self._searcher.explain_score(asked.search_request(1, 0, self._today()), url)
        return self._replies.html(request, "score_explanation.html", url=url, reasons=ScoreExplanation.of(parts))

    def help(self, request: Request) -> Response:
        asked, _ = SearchParams.from_query(request.query_params), self._replies.translator(request)
        return self._replies.html(request, "search_help.html", all_switches=search_switches(asked, _))

    # -- for programs ----------------------------------------------------------------------------------------------

    def as_json(self, request: Request) -> Response:
        result, _ = self._search_from_request(request, PER_PAGE, people=True)
        return json_response(result.in_english())

    def as_csv(self, request: Request) -> Response:
        result, offset = self._search_from_request(request, CSV_HITS, people=True)
        headers = {"Content-Disposition": 'attachment; filename="search.csv"'} | _missing_shards_header(result)
        return Response(feeds.to_csv(result, offset), media_type=feeds.CSV_TYPE, headers=headers)

    def as_rss(self, request: Request) -> Response:
        feed = self._feed(request)
        return Response(feeds.to_rss(feed), media_type=feeds.RSS_TYPE, headers=_missing_shards_header(feed.result))

    def as_atom(self, request: Request) -> Response:
        feed = self._feed(request)
        return Response(feeds.to_atom(feed), media_type=feeds.ATOM_TYPE, headers=_missing_shards_header(feed.result))

    def opensearch(self, request: Request) -> Response:
        content = feeds.opensearch_description(self._replies.site_url(request), self._replies.translator(request))
        return Response(content, media_type=feeds.OPENSEARCH_TYPE)

    def suggest(self, request: Request) -> Response:
        """How a text may go on, as browsers ask for it (OpenSearch Suggestions 1.1)."""
        text = request.query_params.get("q", "")[:SUGGEST_CHARS_MAX]
        found = self._searcher.suggest(text, SUGGESTIONS) if text.strip() else []
        return json_response([text, found], media_type=feeds.SUGGESTIONS_TYPE)

    def _feed(self, request: Request) -> feeds.SearchFeed:
        """Readers of feeds ask again and again: nobody's interest is counted by that."""
        result, offset = self._search_from_request(request, FEED_HITS, people=False)
        base, asked = self._replies.site_url(request), SearchParams.from_query(request.query_params)
        n = integer_param(request.query_params, "n", FEED_HITS)
        own = asked.address(request.url.path, n=n if n != FEED_HITS else "", offset=offset or "")
        title = f"{asked.q or asked.related} – Tarrafa"
        return feeds.SearchFeed(result, offset, title, base + asked.address("/"), base + own, self._now())

    # -- both ------------------------------------------------------------------------------------------------------

    def _search_from_request(self, request: Request, n: int, people: bool) -> tuple[SearchResult, int]:
        given = request.query_params
        n, offset = integer_param(given, "n", n), integer_param(given, "offset", 0)
        return self._search(SearchParams.from_query(given), n, offset, people and request.method == "GET"), offset

    def _search(self, asked: SearchParams, n: int, offset: int, people: bool) -> SearchResult:
        question: SearchRequest = asked.search_request(n, offset, self._today())
        result = self._answers.search(question)
        is_new = asked.q and not offset and not asked.is_narrowed and not asked.like  # else it is the same, looked into
        if people and is_new and self._note is not None:
            self._note(asked.q, 0 if result.instead else result.total)  # what is shown instead was not asked for
        return result

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()

    def _documents(self) -> int:
        try:
            return self._searcher.documents
        except (DataError, ShardUnavailable):
            return 0

    def _indexed_languages(self) -> list[str]:
        """As of the commit that answers, and of a moment ago elsewhere."""
        moment, now = self._moment(), monotonic()
        known, until, languages = self._languages
        if known != moment or until < now:
            languages = list(self._searcher.languages())
            self._languages = (moment, now + CACHE_AGE_MAX_S, languages)
        return languages


_is_url = re.compile(r"https?://\S+", re.IGNORECASE).fullmatch


def _missing_shards_header(result: SearchResult) -> dict[str, str]:
    """Who did not answer, where the format itself has no place for it."""
    away = [quote(shard.name, safe=":/[]") for shard in result.shards if shard.trouble]
    return {"X-Tarrafa-Without": ", ".join(away)} if away else {}
