"""Renders HTML pages in the reader's language and turns errors into HTML, JSON or text responses.

Promises: pages are in the reader's language (`language_negotiation`); a cookie stores that choice and nothing else. An
invalid search is 400 and one sentence, an unknown URL 404, no index yet 503; a program that requested JSON gets the
error as JSON, one that requested a feed or a table as plain text, both in English. Knows nothing of the content of
requests.
"""

import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from tarrafa.errors import ConfigError, DataError, FrontierError, NotReady, ShardUnavailable
from tarrafa.i18n import ENGLISH, PORTUGUESE, Translator, message
from tarrafa.index import shards as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.listen_address import is_loopback_host
from tarrafa.server.error_status import status_and_message, unexpected_error
from tarrafa.server.jinja_environment import TemplateRenderer
from tarrafa.server.language_negotiation import accepted_languages, choose_language
from tarrafa.server.search.params import SearchParams, address

LANGUAGE_COOKIE = "hl"
LANGUAGE_COOKIE_S = 365 * 86_400
READER_LANGUAGES_MAX = 4
TEXT_SUFFIXES = (".csv", ".rss", ".atom", ".xml")
_host = re.compile(r"(?:([A-Za-z0-9.-]{1,253})|\[([0-9A-Fa-f:.]{2,45})\])(?::\d{1,5})?").fullmatch
INTERFACES = (ENGLISH, PORTUGUESE)
NO_URL = message("Which page? The address needs ?url= with an http or https URL.")
log = logging.getLogger(__name__)


class PageResponses:
    """Renders pages and errors. `sees_status`: whether a request may see the state of the crawl, if there is one;
    `public` is the public URL of the site, if configured; `suggests`: whether visitors can suggest sites now;
    `can_watch`: whether to show links to the console's page of watches."""

    def __init__(
        self,
        data: DataDirectory,
        sees_status: Callable[[Request], bool] | None,
        public: str = "",
        suggests: Callable[[], bool] = lambda: False,
        can_watch: Callable[[Request], bool] = lambda request: False,
    ) -> None:
        self._data, self._sees_status, self._public = data, sees_status, public.rstrip("/")
        self._suggests, self._can_watch = suggests, can_watch
        self._renderers = {one.code: TemplateRenderer(one) for one in INTERFACES}

    @property
    def public(self) -> str:
        """The public URL of the site, without a slash; empty if none is configured."""
        return self._public

    def translator(self, request: Request) -> Translator:
        chosen, remembered = request.query_params.get("hl", ""), request.cookies.get(LANGUAGE_COOKIE, "")
        return choose_language(chosen, remembered, request.headers.get("accept-language", ""))

    def reader_languages(self, request: Request) -> list[str]:
        """The languages of a reader: of the page, and those that the browser accepts."""
        accepted = accepted_languages(request.headers.get("accept-language", ""))
        return list(dict.fromkeys([self.translator(request).code, *accepted]))[:READER_LANGUAGES_MAX]

    def render(self, request: Request, template: str, **values: Any) -> str:
        """A page, or a piece of one, in the reader's language."""
        asked = SearchParams.from_query(request.query_params)

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
        common |= {"here": here, "there": there, "interfaces": INTERFACES, "suggests": self._suggests}
        common["can_watch"] = self._can_watch(request)
        common["has_pages"] = self._data.version.exists()  # else the data about pages are on another machine
        return self._renderers[self.translator(request).code].render(template, **(common | values))

    def html(self, request: Request, template: str, code: int = 200, **values: Any) -> Response:
        language, asked = self.translator(request).code, SearchParams.from_query(request.query_params)
        drawn = self.render(request, template, **values)
        response = HTMLResponse(drawn, code, {"Vary": "Accept-Language, Cookie", "Content-Language": language})
        if asked.hl == language:
            response.set_cookie(LANGUAGE_COOKIE, language, LANGUAGE_COOKIE_S, path="/", httponly=True, samesite="lax")
        return response

    def site_url(self, request: Request) -> str:
        """The site's own URL, without a slash: the public one, else the address that the request came to. A Host header
        is repeated only if it names that address or this machine: a client may write any name there.
        """
        if self._public:
            return self._public
        own, port = request.scope.get("server") or ("localhost", None)
        host = (f"[{own}]" if ":" in own else own) + (f":{port}" if port else "")
        if (found := _host(request.headers.get("host", ""))) is not None:
            name = found[1] or found[2]
            host = found[0] if name == own or is_loopback_host(name) else host
        return f"{request.scope['scheme']}://{host}"

    async def error_response(self, request: Request, error: Exception) -> Response:
        """Every error ends here."""
        path = request.url.path
        for_programs = path.endswith((".json", *TEXT_SUFFIXES)) or path == "/suggest"
        translator = ENGLISH if for_programs else self.translator(request)
        answer = unexpected_error if isinstance(error, ConfigError) else status_and_message  # the operator's file
        code, sentence, headers = answer(error, translator)
        sentence = self._why_not_ready(error, translator) or sentence
        if path.endswith(TEXT_SUFFIXES):
            response: Response = PlainTextResponse(f"{sentence}\n", code)
        elif for_programs:
            response = json_response({"error": sentence}, code)
        else:
            response = self.html(request, "error.html", code, sentence=sentence)
        response.headers.update(headers)
        return response

    def _why_not_ready(self, error: Exception, _: Translator) -> str:
        """What is not there yet, though nothing is wrong; empty: something else is the matter."""
        if isinstance(error, DataError) and not index.exists(self._data):
            return _("Nothing is indexed yet. Start a crawl with “tarrafa crawl FILE”, and search while it runs.")
        if isinstance(error, NotReady):
            return _("The link graph is not ready yet. It is built while the crawl runs: try again in a moment.")
        if isinstance(error, DataError | FrontierError | ShardUnavailable):
            log.error("%s", error)
        return ""


def json_response(value: object, code: int = 200, media_type: str = "application/json") -> Response:
    return Response(msgspec.json.encode(value), code, media_type=media_type)
