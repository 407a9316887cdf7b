"""Pages that show a capture to people: its text, or the page as it looked, in a frame of the replay host.

Promises: the text needs neither scripts nor images nor styles of the archived page. The page with the frame may load
nothing but that frame (`frame-src`), so an archived page that wants to leave the archive leads nowhere; the frame's
sandbox allows no top navigation and no windows. Versions and dates stand outside of the frame, where no archived page
can change them.
"""

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tarrafa.captures.capture_access import CaptureStore, CaptureText
from tarrafa.captures.memento_links import ReplayUris
from tarrafa.captures.reader import Capture
from tarrafa.captures.timestamps import iso_date
from tarrafa.i18n import Message
from tarrafa.server.auth.request_origin import is_local_request
from tarrafa.server.error_status import status_and_message
from tarrafa.server.page_responses import PageResponses
from tarrafa.server.replay.replay_site import SANDBOX, ReplayState
from tarrafa.server.replay.wabac_package import LICENCE
from tarrafa.server.search.params import address
from tarrafa.server.security_headers import CONTENT_SECURITY_POLICY, CSP_HEADER

LINES_SHOWN_MAX = 20_000
PROGRAM = f"wabac.js ({LICENCE})"
# What a browser shows in a sandboxed frame. Its reader of PDFs is a plug-in, which the sandbox forbids.
_replayed_type = re.compile(r"(?:text|image|audio|video)/|application/(?:xhtml\+xml|xml|json|javascript)$").match


class CopyPages:
    def __init__(self, store: CaptureStore, pages: PageResponses, replay: ReplayState) -> None:
        self._store, self._pages, self._replay = store, pages, replay

    def is_replayed(self, request: Request, found: Capture) -> bool:
        """Whether there is a replay, and the capture is of a type that it shows."""
        if self._why_off(request):
            return False
        original = self._store.reader.original_of(found) if found.is_revisit else found
        return found.status[:1] == "3" or _replayed_type((original and original.mime) or "") is not None

    def _why_off(self, request: Request) -> Message | str:
        """A client may write any name into its Host header: the browser of a reader compares it once more."""
        host = f"{request.scope['scheme']}://{request.headers.get('host', '').lower()}"
        return self._replay.why_off(self._pages.public or host)

    def replayed(self, request: Request, found: Capture) -> Response:
        """The page in a frame, below the bar of its versions."""
        site = self._replay.site
        assert site is not None  # is_replayed
        frame = site.replayed_uri(found.timestamp, found.url)
        values = self._values(request, found, replayed=True)
        values |= {"frame": frame, "sandbox": SANDBOX, "replay_source": site.source_uri(), "replay_program": PROGRAM}
        response = self._pages.html(request, "capture_replay.html", **values)
        response.headers[CSP_HEADER] = f"{CONTENT_SECURITY_POLICY}; frame-src {site.origin}"
        return response

    def bar(self, request: Request, found: Capture) -> Response:
        """The bar alone, for a page to which a link in the frame has led."""
        return self._pages.html(request, "capture_bar.html", **self._values(request, found, replayed=True))

    def bar_without_capture(self, request: Request, url: str, error: Exception) -> Response:
        code, sentence, _ = status_and_message(error, self._pages.translator(request))
        return self._pages.html(request, "capture_bar_missing.html", code, url=url, sentence=sentence)

    def text(self, request: Request, found: Capture) -> Response:
        text = self._store.read_text(found)
        off = self._why_off(request)
        # A visitor can do nothing about a replay that was never wanted; the operator can.
        note = off if self._replay.site is not None or is_local_request(request) else ""
        values = self._values(request, found, replayed=False) | _text_values(text)
        values |= {"note": note, "is_replayed": self.is_replayed(request, found)}
        return self._pages.html(request, "capture_text.html", **values)

    def _values(self, request: Request, found: Capture, *, replayed: bool) -> dict[str, Any]:
        uris, language = ReplayUris("", found.url), request.query_params.get("hl", "")

        def here(language: str) -> str:
            return address("/copy", url=found.url, at=found.timestamp, hl=language, **({} if replayed else TEXT_ONLY))

        def version(timestamp: str) -> str:
            """The same view of another capture."""
            if replayed:
                return address("/copy", url=found.url, at=timestamp, hl=language)
            return uris.memento(timestamp)

        return {
            "capture": found,
            "versions": self._store.reader.versions(found),
            "memento": version,
            "raw": uris.memento(found.timestamp, raw=True),
            "timemap": uris.timemap(),
            "as_text": address("/copy", url=found.url, at=found.timestamp, hl=language, **TEXT_ONLY),
            "as_replay": address("/copy", url=found.url, at=found.timestamp, hl=language),
            "iso": iso_date,
            "moment": lambda timestamp: iso_date(timestamp).replace("T", " ").replace("Z", " UTC"),
            "here": here,
        }


TEXT_ONLY = {"as": "text"}


def _text_values(text: CaptureText) -> dict[str, Any]:
    lines = text.lines[:LINES_SHOWN_MAX] if text.text else []
    target = ReplayUris("", text.location).memento(text.capture.timestamp) if text.location else ""
    return {"text": text, "lines": lines, "is_cut": len(text.lines) > LINES_SHOWN_MAX, "target": target}
