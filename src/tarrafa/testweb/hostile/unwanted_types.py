"""Hostile hosts with unwanted MIME types, misleading types and bodies of 50 MB.

Promises: bodies of 50 MB that a crawler must cut at the header (the log records how many bytes were really sent); files
whose extension tells a crawler not to request them; bytes that do not match their declared type.
Knows nothing of documents that some collections accept (`office_documents`).
"""

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileHandler, register_host
from tarrafa.testweb.hostile.response_builders import (
    PIECE,
    SPARE,
    either,
    flood,
    header,
    html,
    kept,
    lost,
    register_site,
)
from tarrafa.testweb.http.web_response import HTML, typed
from tarrafa.testweb.render.binary_files import pdf

OFFERED_BYTES = 50_000_000
EXTENSIONS = ("jpg", "zip", "mp4", "exe", "JPG")

_TIMES = -(-OFFERED_BYTES // PIECE)
_NOTHING = typed(200, "application/octet-stream", b"\0" * 100)


def _offers(content_type: str, piece: bytes) -> HostileHandler:
    head = header(f"Content-Length: {_TIMES * PIECE}", content_type=content_type)
    return flood(head, piece * (PIECE // len(piece)), _TIMES)


register_host(
    "image", "a host where everything is an image of 50 MB",
    CrawlExpectation({"http://image.corner.test/": (Status.TYPE_NOT_WANTED,)}, requests_max=2 + SPARE),
)(_offers("image/jpeg", b"\xff\xd8\xff\xe0"))  # fmt: skip
register_site(
    "large", "a page of 50 MB, an image of as many, and bytes that are not what their type says",
    {
        "/large.html": lost(_offers(HTML, b"<p>muito"), Status.TOO_LARGE),
        "/image": lost(_offers("image/jpeg", b"\xff\xd8\xff\xe0"), Status.TYPE_NOT_WANTED),
        "/upper": kept(typed(200, "TEXT/HTML;Charset=UTF-8", html("Tipo em maiúsculas"))),
        "/text": kept(typed(200, "text/plain; charset=utf-8", "Um texto, e não uma página: só palavras.".encode())),
        "/bad-type": either(typed(200, "isto não é um tipo", html("Tipo nenhum")), 200, Status.TYPE_NOT_WANTED),
        "/pdf.html": either(typed(200, HTML, pdf("Um PDF que diz ser uma página")), 200, Status.TYPE_NOT_WANTED),
    },
)  # fmt: skip
register_site(
    "files", "a page of links to files whose names say that they are no pages",
    {f"/file.{extension}": lost(_NOTHING, Status.TYPE_NOT_WANTED) for extension in EXTENSIONS},
    never=tuple(f"/file.{extension}" for extension in EXTENSIONS),
)  # fmt: skip
