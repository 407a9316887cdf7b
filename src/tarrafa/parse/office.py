"""What does this office document say?

Promises: what it is its parts say, not the type that it was sent with: a workbook that was sent as a letter is read as
a workbook (`ooxml`: docx, xlsx, pptx; `odf`: odt, ods, odp).
Knows nothing of ZIP (`package`) or of URLs: references are noted as they stand, and the caller resolves them.
"""

import re

from tarrafa.parse import odf, ooxml
from tarrafa.parse.document import Document, Full
from tarrafa.parse.package import Package
from tarrafa.parse.refusal import DAMAGED, ENCRYPTED, Unreadable

_odf_type = re.compile(rb"application/vnd\.oasis\.opendocument\.(?:text|spreadsheet|presentation)").match
_OLE = b"\xd0\xcf\x11\xe0"  # Office 97; an OOXML document with a password is packed into one, too
_ENCRYPTED_OLE = "EncryptedPackage".encode("utf-16-le")


def is_document(body: bytes) -> bool:
    """Whether a ZIP archive is one of ours."""
    try:
        package = Package(body)
        return ooxml.CONTENT_TYPES in package or _odf_type(package.beginning("mimetype")) is not None
    except (Unreadable, Full):
        return False


def read(body: bytes, document: Document) -> None:
    """Note down what an office document says."""
    if body.startswith(_OLE):
        raise Unreadable(ENCRYPTED) if _ENCRYPTED_OLE in body else Unreadable(DAMAGED, "of Office 97")
    package = Package(body)
    if odf.CONTENT in package and ooxml.CONTENT_TYPES not in package:
        odf.read(package, document)
    else:
        ooxml.read(package, document)
