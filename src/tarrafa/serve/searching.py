"""Which page answers a search?

    /            the first page, or results      /search.json  .csv  .rss  .atom   the same for programs
    /why         the parts of a score            /opensearch.xml                   how a browser adds this search
    /help        how to search                   /suggest                          how a text may go on

Promises: one question gives the same hits through every door. What was asked is noted where there is a log
(`queries`), the first page of it only, and without whoever asked.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from time import monotonic
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.errors import DataError, ShardAway
from tarrafa.model import SearchResult
from tarrafa.parse.url import canonical
from tarrafa.search.question import DEPTH_MAX, HITS_MAX, Question
from tarrafa.search.searcher import Searcher
from tarrafa.serve import formats
from tarrafa.serve.answers import SECONDS_MAX, Answers, Moment
from tarrafa.serve.asked import Asked, page_number, whole
from tarrafa.serve.choices import menus, switches
from tarrafa.serve.pages import PER_PAGE, Reasons, results_pager, shown_hits
from tarrafa.serve.replies import NotKnown, Replies, json

FEED_HITS = 20
TABLE_HITS = HITS_MAX
SUGGESTIONS = 8
SUGGEST_CHARS_MAX = 100

Note = Callable[[str, int], None]  # a text and how many pages it found
Now = Callable[[], float]


class SearchPages:
    """The handlers, and what they share."""

    def __init__(self, searcher: Searcher, replies: Replies, moment: Moment, note: Note | None, now: Now) -> None:
        self._searcher, self._replies, self._moment = searcher, replies, moment
        self._answers = Answers(searcher.search, moment)
        self._note, self._now = note, now
        self._languages: tuple[object, float, list[str]] = (None, 0.0, [])

    def routes(self) -> list[Route]:
        return [
            Route("/", self.search),
            Route("/search.json", self.as_json),
            Route("/search.csv", self.as_csv),
            Route("/search.rss", self.as_rss),
            Route("/search.atom", self.as_atom),
            Route("/opensearch.xml", self.description),
            Route("/suggest", self.suggest),
            Route("/why", self.why),
            Route("/help", self.help),
        ]

    # -- for people ------------------------------------------------------------------------------------------------

    def search(self, request: Request) -> Response:
        asked, page = Asked.of(request.query_params), page_number(request.query_params, "page")
        if asked.is_empty:
            return self._replies.html(request, "home.html", documents=self._documents())
        offset = (page - 1) * PER_PAGE
        result = self._answer(asked, PER_PAGE, offset, people=request.method == "GET")
        texts = self._replies.texts(request)
        return self._replies.html(
            request,
            "results.html",
            result=result,
            hits=shown_hits(result, asked, offset),
            numbers=results_pager(page, result.total),
            menus=menus(asked, texts, self._present_languages()),
            switches=switches(asked, texts),
            depth_max=DEPTH_MAX,
            typed_url=canonical(asked.q) if _address(asked.q.strip()) else None,
        )

    def why(self, request: Request) -> Response:
        """How a page came to its score."""
        asked, url = Asked.of(request.query_params), request.query_params.get("url", "").strip()
        if not url:
            raise NotKnown("no_url")
        parts = self._searcher.why(asked.question(1, 0, self._today()), url)
        return self._replies.html(request, "why.html", url=url, reasons=Reasons.of(parts))

    def help(self, request: Request) -> Response:
        return self._replies.html(request, "help.html")

    # -- for programs ----------------------------------------------------------------------------------------------

    def as_json(self, request: Request) -> Response:
        result, _ = self._asked_for(request, PER_PAGE, people=True)
        return json(result)

    def as_csv(self, request: Request) -> Response:
        result, offset = self._asked_for(request, TABLE_HITS, people=True)
        headers = {"Content-Disposition": 'attachment; filename="search.csv"'} | _without(result)
        return Response(formats.csv(result, offset), media_type=formats.CSV_TYPE, headers=headers)

    def as_rss(self, request: Request) -> Response:
        feed = self._feed(request)
        return Response(formats.rss(feed), media_type=formats.RSS_TYPE, headers=_without(feed.result))

    def as_atom(self, request: Request) -> Response:
        feed = self._feed(request)
        return Response(formats.atom(feed), media_type=formats.ATOM_TYPE, headers=_without(feed.result))

    def description(self, request: Request) -> Response:
        content = formats.opensearch(self._replies.base(request), self._replies.texts(request))
        return Response(content, media_type=formats.OPENSEARCH_TYPE)

    def suggest(self, request: Request) -> Response:
        """How a text may go on, as browsers ask for it (OpenSearch Suggestions 1.1)."""
        text = request.query_params.get("q", "")[:SUGGEST_CHARS_MAX]
        found = self._searcher.suggest(text, SUGGESTIONS) if text.strip() else []
        return json([text, found], media_type=formats.SUGGESTIONS_TYPE)

    def _feed(self, request: Request) -> formats.Feed:
        """Readers of feeds ask again and again: nobody's interest is counted by that."""
        result, offset = self._asked_for(request, FEED_HITS, people=False)
        base, asked = self._replies.base(request), Asked.of(request.query_params)
        n = whole(request.query_params, "n", FEED_HITS)
        own = asked.address(request.url.path, n=n if n != FEED_HITS else "", offset=offset or "")
        title = f"{asked.q or asked.related} – Tarrafa"
        return formats.Feed(result, offset, title, base + asked.address("/"), base + own, self._now())

    # -- both ------------------------------------------------------------------------------------------------------

    def _asked_for(self, request: Request, n: int, people: bool) -> tuple[SearchResult, int]:
        given = request.query_params
        n, offset = whole(given, "n", n), whole(given, "offset", 0)
        return self._answer(Asked.of(given), n, offset, people and request.method == "GET"), offset

    def _answer(self, asked: Asked, n: int, offset: int, people: bool) -> SearchResult:
        question: Question = asked.question(n, offset, self._today())
        result = self._answers.to(question)
        is_new = asked.q and not offset and not asked.is_narrowed and not asked.like  # else it is the same, looked into
        if people and is_new and self._note is not None:
            self._note(asked.q, 0 if result.instead else result.total)  # what is shown instead was not asked for
        return result

    def _today(self) -> date:
        return datetime.fromtimestamp(self._now(), UTC).date()

    def _documents(self) -> int:
        try:
            return self._searcher.documents
        except (DataError, ShardAway):
            return 0

    def _present_languages(self) -> list[str]:
        """As of the commit that answers, and of a moment ago elsewhere."""
        moment, now = self._moment(), monotonic()
        known, until, languages = self._languages
        if known != moment or until < now:
            languages = list(self._searcher.languages())
            self._languages = (moment, now + SECONDS_MAX, languages)
        return languages


_address = re.compile(r"https?://\S+", re.IGNORECASE).fullmatch


def _without(result: SearchResult) -> dict[str, str]:
    """Who did not answer, where the format itself has no place for it."""
    away = [quote(shard.name, safe=":/[]") for shard in result.shards if shard.trouble]
    return {"X-Tarrafa-Without": ", ".join(away)} if away else {}
