"""The CDX server (/cdx): which captures of a URL, prefix, host or domain there are.

Promises: parameters are those of `captures/cdx_params`, each within its bounds; every error is one line of text in
English. Where a record is (file name and offset) is said to clients on this machine only: file names hold names of
machines.
"""

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.cdx_lines import cdx_lines, count_pages
from tarrafa.captures.cdx_params import CdxQuery, parse_cdx_query
from tarrafa.errors import TarrafaError
from tarrafa.i18n import ENGLISH
from tarrafa.server.auth.request_origin import is_local_request
from tarrafa.server.error_status import status_and_message
from tarrafa.server.page_responses import json_response

CDX_PATH = "/cdx"
MEDIA_TYPES = {"json": "text/x-ndjson", "cdxj": "text/x-cdxj", "text": "text/plain"}


class CdxRoutes:
    def __init__(self, store: CaptureStore) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        return [Route(CDX_PATH, self.cdx)]

    def cdx(self, request: Request) -> Response:
        try:
            query = parse_cdx_query(request.query_params.multi_items())
            return self._count(query) if query.counts_pages else self._lines(request, query)
        except TarrafaError as error:
            code, sentence, headers = status_and_message(error, ENGLISH)
            return PlainTextResponse(f"{sentence}\n", code, headers)

    def _lines(self, request: Request, query: CdxQuery) -> Response:
        lines = "".join(cdx_lines(self._store.reader, query, with_files=is_local_request(request)))
        return Response(lines, media_type=MEDIA_TYPES[query.output])

    def _count(self, query: CdxQuery) -> Response:
        pages = count_pages(self._store.reader, query)
        if query.output == "json":
            return json_response({"pages": pages, "pageSize": query.page_size})
        return PlainTextResponse(f"{pages}\n")
