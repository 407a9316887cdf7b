"""Hostile host with PDF and office documents: valid, encrypted, damaged, and a ZIP bomb.

Promises: a small PDF, DOCX, XLSX, PPTX and ODT, each with a link to a page of its own that nobody else links to;
beside them a PDF that is locked, one that is torn, and a DOCX that is a bomb. A collection of pages never asks for
what ends in .pdf and the like, and cuts at the header what only its type gives away; `Expects` speaks of such a
collection. One that wants documents finds DOCUMENTS, and behind each `/from-NAME.html`. Knows nothing of how they are
read.
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
    """The password is nobody's."""
    return pdf(TEXT, trailer=_LOCK)


def damaged_pdf() -> bytes:
    whole = pdf(TEXT)
    return whole[: len(whole) // 2].replace(b"obj", b"\xff\xff\xff")


def docx_bomb() -> bytes:
    """Spaces may stand before the first element, so this is a document, once a gigabyte of them is read."""
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
