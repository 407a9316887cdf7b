"""Renders HTML pages in the reader's language and turns errors into HTML, JSON or text responses.

Promises: pages are in the reader's language, and what he chose is remembered in a cookie that holds nothing else. A
search that cannot be understood is 400 and one sentence, an unknown URL 404, nothing indexed yet 503; a program that
asked for JSON hears it as JSON, one that asked for a feed or a table as plain text, both in English.
Knows nothing of what is asked.
"""

import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from tarrafa.errors import DataError, FrontierError, NotReady, PageTakenDown, QueryError, ShardUnavailable, TarrafaError
from tarrafa.index import shards as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.jinja_environment import TemplateRenderer
from tarrafa.server.page_texts import Texts, translated
from tarrafa.server.page_texts.english import ENGLISH
from tarrafa.server.page_texts.interface_language import COOKIE, COOKIE_S, LANGUAGES, choose
from tarrafa.server.search.params import SearchParams, address

TEXT_SUFFIXES = (".csv", ".rss", ".atom", ".xml")
_host = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?").fullmatch
log = logging.getLogger(__name__)


class UnknownResource(TarrafaError):
    """Something that nobody here has heard of; it holds the name of a text."""


class Forbidden(TarrafaError):
    """Something that is not told to everybody; it holds the name of a text."""


class PageResponses:
    """Draws pages and says what is wrong. `sees_status` tells whom a link to the crawl's state leads somewhere, if
    there is one; `public` is the address that the site is known by, where it is told; `suggests` tells whether visitors
    can suggest sites now."""

    def __init__(
        self,
        data: DataDirectory,
        sees_status: Callable[[Request], bool] | None,
        public: str = "",
        suggests: Callable[[], bool] = lambda: False,
    ) -> None:
        self._data, self._sees_status, self._public = data, sees_status, public.rstrip("/")
        self._suggests = suggests
        self._drawings = {code: TemplateRenderer(texts) for code, texts in LANGUAGES.items()}

    def texts(self, request: Request) -> Texts:
        chosen, remembered = request.query_params.get("hl", ""), request.cookies.get(COOKIE, "")
        return choose(chosen, remembered, request.headers.get("accept-language", ""))

    def render(self, request: Request, template: str, **values: Any) -> str:
        """A page, or a piece of one, in the reader's language."""
        texts, asked = self.texts(request), SearchParams.from_query(request.query_params)

        def here(language: str) -> str:
            """This page in another language. A path such as `//evil.test` must not become another host."""
            kept = [(name, value) for name, value in request.query_params.multi_items() if name != "hl"]
            path = f"/{quote(request.url.path.lstrip('/'))}"
            return f"{path}?{urlencode([*kept, ('hl', language)])}"

        def there(name: str, number: int) -> str:
            """Another page of one of the lists that are shown."""
            kept = {**request.query_params, name: number if number > 1 else ""}
            return address(request.url.path, **kept)

        has_status = self._sees_status is not None and self._sees_status(request)
        common: dict[str, Any] = {"asked": asked, "home": address("/", hl=asked.hl), "has_status": has_status}
        common |= {"here": here, "there": there, "interfaces": LANGUAGES.values(), "suggests": self._suggests}
        common["has_pages"] = self._data.version.exists()  # else whoever knows more of a page is elsewhere
        return self._drawings[texts.code].render(template, **(common | values))

    def html(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:
        texts, asked = self.texts(request), SearchParams.from_query(request.query_params)
        drawn = self.render(request, template, **values)
        response = HTMLResponse(drawn, code, {"Vary": "Accept-Language, Cookie", "Content-Language": texts.code})
        if asked.hl == texts.code:
            response.set_cookie(COOKIE, texts.code, COOKIE_S, path="/", httponly=True, samesite="lax")
        return response

    def site_url(self, request: Request) -> str:
        """The site's own address, without a slash. What a request says of it is believed as far as it can be one."""
        if self._public:
            return self._public
        host = request.headers.get("host", "")
        return f"{request.url.scheme}://{host}" if _host(host) else "http://localhost"

    async def error_response(self, request: Request, error: Exception) -> Response:
        """Every error ends here."""
        path = request.url.path
        for_programs = path.endswith((".json", *TEXT_SUFFIXES)) or path == "/suggest"
        code, sentence = self._status_and_message(error, ENGLISH if for_programs else self.texts(request))
        if path.endswith(TEXT_SUFFIXES):
            return PlainTextResponse(f"{sentence}\n", code)
        if for_programs:
            return json_response({"error": sentence}, code)
        return self.html(request, "error.html", code, sentence=sentence)

    def _status_and_message(self, error: Exception, texts: Texts) -> tuple[int, str]:
        if isinstance(error, HTTPException):
            return error.status_code, texts.no_such_page if error.status_code == 404 else error.detail
        if isinstance(error, QueryError):
            return 400, translated(str(error), texts) or str(error)
        if isinstance(error, UnknownResource | Forbidden | PageTakenDown):
            code = {UnknownResource: 404, Forbidden: 403}.get(type(error), 451)
            return code, texts.taken_down if code == 451 else getattr(texts, str(error))
        is_empty = isinstance(error, DataError) and not index.exists(self._data)
        if is_empty or isinstance(error, NotReady):
            return 503, texts.not_yet if is_empty else texts.no_links_yet
        if isinstance(error, DataError | FrontierError | ShardUnavailable):
            log.error("%s", error)
            return 503, str(error)
        log.error("unexpected", exc_info=error)
        return 500, texts.internal


def json_response(value: object, code: int = 200, media_type: str = "application/json") -> Response:
    return Response(msgspec.json.encode(value), code, media_type=media_type)
