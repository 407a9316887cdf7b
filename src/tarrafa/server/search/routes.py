"""Routes of search: results page, JSON, CSV, RSS, Atom, OpenSearch, suggestions, score explanation, help.

    /            the first page, or results      /search.json  .csv  .rss  .atom   the same for programs
    /why         the parts of a score            /opensearch.xml                   how a browser adds this search
    /help        how to search                   /suggest                          completions of a text

Promises: one request gives the same hits in every format. If there is a query log, it gets the first page of results
only, and nothing of the client.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from time import monotonic
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, ShardUnavailable
from tarrafa.model import SearchResult
from tarrafa.parse.url import canonical
from tarrafa.search.request import HITS_MAX, RESULT_DEPTH_MAX
from tarrafa.search.result_cache import CACHE_AGE_MAX_S, IndexVersionSource, SearchResultCache
from tarrafa.search.searcher import INSTEAD_SPELLING, Searcher
from tarrafa.server.error_status import UnknownResource
from tarrafa.server.jinja_environment import PER_PAGE, ScoreExplanation, hit_views, results_pager
from tarrafa.server.page_responses import NO_URL, PageResponses, json_response
from tarrafa.server.search import feeds
from tarrafa.server.search.params import SearchParams, filter_menus, integer_param, page_number_param, search_switches
from tarrafa.server.search.query_log import AskedQueries
from tarrafa.server.search.search_pool import SearchPool

FEED_HITS = 20
CSV_HITS = HITS_MAX
SUGGESTIONS = 8
ASKED_SUGGESTIONS = 3  # of these, what others asked
SUGGEST_CHARS_MAX = 100

RecordQuery = Callable[[str, int], None]  # a text and how many pages it found
_is_url = re.compile(r"https?://\S+", re.IGNORECASE).fullmatch


class SearchRoutes:
    """The handlers, the result cache, and the languages of the pages. `record` logs a query."""

    def __init__(
        self,
        searcher: Searcher,
        pool: SearchPool,
        responses: PageResponses,
        version: IndexVersionSource,
        record: RecordQuery | None,
        now: Callable[[], float],
        asked: AskedQueries | None = None,
    ) -> None:
        self._searcher, self._pool, self._responses, self._version = searcher, pool, responses, version
        self._cache = SearchResultCache(searcher.search, version)
        self._record, self._now, self._asked = record, now, asked
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

    async def search(self, request: Request) -> Response:
        params, page = SearchParams.from_query(request.query_params), page_number_param(request.query_params, "page")
        if params.is_empty:
            return await run_in_threadpool(self._home, request)
        offset = (page - 1) * PER_PAGE
        result = await self._search(params, PER_PAGE, offset, people=request.method == "GET")
        return await run_in_threadpool(self._results_page, request, params, page, result)

    def _home(self, request: Request) -> Response:
        return self._responses.html(request, "home.html", urls=self._count_urls())

    def _results_page(self, request: Request, params: SearchParams, page: int, result: SearchResult) -> Response:
        offset, _ = (page - 1) * PER_PAGE, self._responses.translator(request)
        return self._responses.html(
            request,
            "search_results.html",
            result=result,
            hits=hit_views(result, params, offset, self._responses.reader_languages(request)),
            numbers=results_pager(page, result.total + result.others),
            menus=filter_menus(params, _, self._indexed_languages()),
            switches=search_switches(params, _),
            depth_max=RESULT_DEPTH_MAX,
            filtered_text=params.filtered_text(self._today()),
            typed_url=canonical(params.q) if _is_url(params.q.strip()) else None,
        )

    def why(self, request: Request) -> Response:
        params, url = SearchParams.from_query(request.query_params), request.query_params.get("url", "").strip()
        if not url:
            raise UnknownResource(NO_URL)
        parts = self._searcher.explain_score(params.search_request(1, 0, self._today()), url)
        return self._responses.html(request, "score_explanation.html", url=url, reasons=ScoreExplanation.of(parts))

    def help(self, request: Request) -> Response:
        params, _ = SearchParams.from_query(request.query_params), self._responses.translator(request)
        return self._responses.html(request, "search_help.html", all_switches=search_switches(params, _))

    # -- for programs ----------------------------------------------------------------------------------------------

    async def as_json(self, request: Request) -> Response:
        result, _ = await self._search_from_request(request, PER_PAGE, people=True)
        return json_response(result.in_english())

    async def as_csv(self, request: Request) -> Response:
        result, offset = await self._search_from_request(request, CSV_HITS, people=True)
        headers = {"Content-Disposition": 'attachment; filename="search.csv"'} | _missing_shards_header(result)
        return Response(
            await run_in_threadpool(feeds.to_csv, result, offset), media_type=feeds.CSV_TYPE, headers=headers
        )

    async def as_rss(self, request: Request) -> Response:
        feed = await self._feed(request)
        return Response(
            await run_in_threadpool(feeds.to_rss, feed),
            media_type=feeds.RSS_TYPE,
            headers=_missing_shards_header(feed.result),
        )

    async def as_atom(self, request: Request) -> Response:
        feed = await self._feed(request)
        return Response(
            await run_in_threadpool(feeds.to_atom, feed),
            media_type=feeds.ATOM_TYPE,
            headers=_missing_shards_header(feed.result),
        )

    def opensearch(self, request: Request) -> Response:
        content = feeds.opensearch_description(self._responses.site_url(request), self._responses.translator(request))
        return Response(content, media_type=feeds.OPENSEARCH_TYPE)

    def suggest(self, request: Request) -> Response:
        """Completions of a text, as browsers want them (OpenSearch Suggestions 1.1)."""
        text = request.query_params.get("q", "")[:SUGGEST_CHARS_MAX]
        completions = self._suggestions(text) if text.strip() else []
        return json_response([text, completions], media_type=feeds.SUGGESTIONS_TYPE)

    def _suggestions(self, text: str) -> list[str]:
        """What others asked that begins so, then completions from the pages."""
        asked = self._asked.beginning_with(text, ASKED_SUGGESTIONS) if self._asked is not None else []
        several = [*asked, *self._searcher.suggest(text, SUGGESTIONS)]
        return list({one.casefold(): one for one in reversed(several)}.values())[::-1][:SUGGESTIONS]

    async def _feed(self, request: Request) -> feeds.SearchFeed:
        """Feed readers repeat their request: it is not logged as a query."""
        result, offset = await self._search_from_request(request, FEED_HITS, people=False)
        base, params = self._responses.site_url(request), SearchParams.from_query(request.query_params)
        n = integer_param(request.query_params, "n", FEED_HITS)
        own = params.address(request.url.path, n=n if n != FEED_HITS else "", offset=offset or "")
        title = f"{params.q or params.related} – Tarrafa"
        return feeds.SearchFeed(result, offset, title, base + params.address("/"), base + own, self._now())

    # -- both ------------------------------------------------------------------------------------------------------

    async def _search_from_request(self, request: Request, n: int, people: bool) -> tuple[SearchResult, int]:
        given = request.query_params
        n, offset = integer_param(given, "n", n), integer_param(given, "offset", 0)
        is_counted = people and request.method == "GET"
        return await self._search(SearchParams.from_query(given), n, offset, is_counted), offset

    async def _search(self, params: SearchParams, n: int, offset: int, people: bool) -> SearchResult:
        result = await self._cache.search_by(self._pool.search, params.search_request(n, offset, self._today()))
        is_new = params.q and not offset and not params.is_narrowed and not params.like  # else a query is looked into
        if people and is_new and self._record is not None:
            is_other = result.instead == INSTEAD_SPELLING or (result.instead and params.all)
            self._record(params.q, 0 if is_other else result.total)
        return result

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()

    def _count_urls(self) -> int:
        try:
            return self._searcher.count_urls()
        except (DataError, ShardUnavailable):
            return 0

    def _indexed_languages(self) -> list[str]:
        """Cached like results: for one commit of the index and at most some seconds."""
        version, now = self._version(), monotonic()
        known, until, languages = self._languages
        if known != version or until < now:
            languages = list(self._searcher.languages())
            self._languages = (version, now + CACHE_AGE_MAX_S, languages)
        return languages


def _missing_shards_header(result: SearchResult) -> dict[str, str]:
    """The shards that did not answer, for formats that have no place for them."""
    away = [quote(shard.name, safe=":/[]") for shard in result.shards if shard.trouble]
    return {"X-Tarrafa-Without": ", ".join(away)} if away else {}
