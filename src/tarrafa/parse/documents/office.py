"""Reads an office document: tells OOXML from ODF by its parts, and refuses OLE and encrypted files.

Promises: the parts of the archive decide the format, not the declared content type: a workbook that was sent as a
letter is read as a workbook (`ooxml`: docx, xlsx, pptx; `odf`: odt, ods, odp).
Knows nothing of ZIP (`zip_xml`) or of URLs: references are kept as the document writes them, and the caller resolves
them.
"""

import re

from tarrafa.parse.documents import odf, ooxml
from tarrafa.parse.documents.document import ExtractedDocument, LimitReached
from tarrafa.parse.documents.zip_xml import ZipXmlPackage
from tarrafa.parse.errors import DAMAGED, ENCRYPTED, UnreadableDocument

_odf_type = re.compile(rb"application/vnd\.oasis\.opendocument\.(?:text|spreadsheet|presentation)").match
_OLE = b"\xd0\xcf\x11\xe0"  # Office 97; an OOXML document with a password is also packed into an OLE file
_ENCRYPTED_OLE = "EncryptedPackage".encode("utf-16-le")


def is_office_document(body: bytes) -> bool:
    """Whether a ZIP archive is an OOXML or ODF document."""
    try:
        package = ZipXmlPackage(body)
        return ooxml.CONTENT_TYPES in package or _odf_type(package.first_bytes("mimetype")) is not None
    except (UnreadableDocument, LimitReached):
        return False


def read(body: bytes, document: ExtractedDocument) -> None:
    """Read an office document into `document`."""
    if body.startswith(_OLE):
        raise UnreadableDocument(ENCRYPTED) if _ENCRYPTED_OLE in body else UnreadableDocument(DAMAGED, "of Office 97")
    package = ZipXmlPackage(body)
    if odf.CONTENT in package and ooxml.CONTENT_TYPES not in package:
        odf.read(package, document)
    else:
        ooxml.read(package, document)
