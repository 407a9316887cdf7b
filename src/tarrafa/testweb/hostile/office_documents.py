"""Hostile host with PDF and office documents: valid, encrypted, damaged, and a ZIP bomb.

Promises: a small PDF, DOCX, XLSX, PPTX and ODT, each with the only link to a page of its own; also an encrypted PDF, a
truncated PDF, and a DOCX that is a bomb. A collection of pages never requests a URL that ends in .pdf and the like, and
cuts at the header a document that only its type reveals; the `CrawlExpectation` is that of such a collection. A
collection that accepts documents finds DOCUMENTS, and through each of them `/from-NAME.html`.
Knows nothing of how documents are read.
"""

from functools import lru_cache

from tarrafa.model import Status
from tarrafa.testweb.hostile import compression_bombs
from tarrafa.testweb.hostile.response_builders import HostileUrl, Responder, lazily, lost, page, register_site
from tarrafa.testweb.http.web_response import WebResponse, typed
from tarrafa.testweb.render.binary_files import DOCX, ODT, PPTX, XLSX, docx, odt, pdf, pptx, xlsx

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
    """A PDF with a password that nobody knows."""
    return pdf(TEXT, trailer=_LOCK)


def damaged_pdf() -> bytes:
    whole = pdf(TEXT)
    return whole[: len(whole) // 2].replace(b"obj", b"\xff\xff\xff")


def docx_bomb() -> bytes:
    """White space may precede the first element, so this is a valid document, after a gigabyte of spaces."""
    return compression_bombs.zip_bomb(b"word/document.xml", b'<w:document xmlns:w="nada"><w:body/></w:document>')


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
