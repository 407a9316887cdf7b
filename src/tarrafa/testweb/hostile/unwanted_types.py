"""Hostile hosts with unwanted MIME types, misleading types, bodies of 50 MB, and PDF and office documents.

Promises: bodies of 50 MB that a crawler must cut at the header (the log records how many bytes were really sent); files
whose extension tells a crawler not to request them; bytes that do not match their declared type. Also a small PDF,
DOCX, XLSX, PPTX and ODT, each with the only link to a page of its own, an encrypted and a truncated PDF, and a DOCX
bomb. A collection of pages never requests a URL that ends in .pdf and the like, and cuts at the header a document
that only its type reveals; the `CrawlExpectation` is that of such a collection. A collection that accepts documents
finds DOCUMENTS, and through each of them `/from-NAME.html`.
"""

from functools import lru_cache

from tarrafa.model import Status
from tarrafa.testweb.hostile.content_codings import zip_bomb
from tarrafa.testweb.hostile.hostile_host import CrawlExpectation, HostileHandler, register_host
from tarrafa.testweb.hostile.response_builders import (
    PIECE,
    SPARE,
    HostileUrl,
    Responder,
    either,
    flood,
    header,
    html,
    kept,
    lazily,
    lost,
    page,
    register_site,
)
from tarrafa.testweb.http.web_response import HTML, WebResponse, typed
from tarrafa.testweb.render.binary_files import DOCX, ODT, PPTX, XLSX, docx, odt, pdf, pptx, xlsx

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


PDF = "application/pdf"
DOCUMENTS = {"pdf": (PDF, pdf), "docx": (DOCX, docx), "xlsx": (XLSX, xlsx), "pptx": (PPTX, pptx), "odt": (ODT, odt)}
TEXT = "Relatório da pesca artesanal"

_BASE = "http://documents.corner.test"
_LOCK = (
    b" /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] /Encrypt << /Filter /Standard /V 1"
    b" /R 2 /P -4 /O <" + b"5a" * 32 + b"> /U <" + b"a5" * 32 + b"> >>"
)


@lru_cache(maxsize=len(DOCUMENTS))
def document_response(name: str) -> WebResponse:
    content_type, write = DOCUMENTS[name]
    return typed(200, content_type, write(f"{TEXT} ({name})", f"{_BASE}/from-{name}.html"))


def encrypted_pdf() -> bytes:
    """A PDF with an unknown password."""
    return pdf(TEXT, trailer=_LOCK)


def damaged_pdf() -> bytes:
    whole = pdf(TEXT)
    return whole[: len(whole) // 2].replace(b"obj", b"\xff\xff\xff")


def docx_bomb() -> bytes:
    """White space may precede the first element, so this is a valid document, after a gigabyte of spaces."""
    return zip_bomb(b"word/document.xml", b'<w:document xmlns:w="nada"><w:body/></w:document>')


def _unwanted(act: Responder) -> HostileUrl:
    return lost(act, Status.TYPE_NOT_WANTED)


_NAMED: dict[str, HostileUrl] = {f"/report.{name}": _unwanted(document_response(name)) for name in DOCUMENTS} | {
    "/locked.pdf": _unwanted(typed(200, PDF, encrypted_pdf())),
    "/torn.pdf": _unwanted(typed(200, PDF, damaged_pdf())),
    "/bomb.docx": _unwanted(lazily(docx_bomb, DOCX, remember=True)),
}
_TYPED: dict[str, HostileUrl] = {f"/download?id={name}": _unwanted(document_response(name)) for name in DOCUMENTS}

register_site(
    "documents", "documents with links, whole, locked, torn, and one that is a bomb",
    _NAMED | _TYPED,
    hidden={f"/from-{name}.html": page(f"Atrás do documento {name}") for name in DOCUMENTS},
    never=(*_NAMED, "/from-"),
)  # fmt: skip
