"""Makes small valid files: PNG, PDF, ZIP, DOCX, XLSX, PPTX and ODT.

Promises: small bodies that match their type: a PNG that opens, a PDF with one page, a ZIP with one member, and the
smallest valid DOCX, XLSX, PPTX and ODT, with one text and one link. The same arguments always give the same bytes.
Knows nothing of hosts or HTTP.
"""

import io
import struct
import zipfile
import zlib
from xml.sax.saxutils import escape, quoteattr


def png(shade: int) -> bytes:
    """Eight by eight grey pixels."""
    rows = b"".join(b"\x00" + bytes([shade & 0xFF]) * 8 for _ in range(8))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pdf(text: str, link: str = "", trailer: bytes = b"") -> bytes:
    """A PDF of one page with one line, which may be a link; with its cross-reference table."""
    line = text.encode("latin-1", "replace").replace(b"\\", b"").replace(b"(", b"").replace(b")", b"")
    target = b"<< /Type /Annot /Subtype /Link /Rect [40 70 360 110] /A << /S /URI /URI (%b) >> >>" % link.encode(
        "ascii"
    )
    stream = b"BT /F1 18 Tf 40 80 Td (" + line + b") Tj ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 400 160] /Contents 4 0 R"
        b" /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>%b >>"
        % (b" /Annots [%b]" % target if link else b""),
        b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
    ]
    body = b"%PDF-1.4\n"
    offsets = []
    for number, thing in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, thing)
    table = b"0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    ending = b"trailer << /Size 5 /Root 1 0 R%b >>\nstartxref\n%d\n%%%%EOF\n" % (trailer, len(body))
    return body + b"xref\n0 5\n" + table + ending


def zip_file(text: str) -> bytes:
    """A ZIP of one text file, dated 1980 so that its bytes never change."""
    store = io.BytesIO()
    with zipfile.ZipFile(store, "w", zipfile.ZIP_DEFLATED) as members:
        members.writestr(zipfile.ZipInfo("leia-me.txt"), text)
    return store.getvalue()


def file_body(extension: str, text: str, shade: int) -> bytes:
    if extension == "png":
        return png(shade)
    if extension == "pdf":
        return pdf(text.partition("\n")[0])
    return zip_file(text) if extension == "zip" else text.encode()


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
ODT = "application/vnd.oasis.opendocument.text"

_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"


def docx(text: str, link: str) -> bytes:
    body = (
        f'<w:document xmlns:w="{_WORD}" xmlns:r="{_OFFICE}"><w:body><w:p><w:hyperlink r:id="rId1"><w:r>'
        f"<w:t>{escape(text)}</w:t></w:r></w:hyperlink></w:p></w:body></w:document>"
    )
    return _office_package("word/document.xml", f"{DOCX}.main+xml", {
        "word/document.xml": body,
        "word/_rels/document.xml.rels": _relationships(("rId1", "hyperlink", link)),
    })  # fmt: skip


def xlsx(text: str, link: str) -> bytes:
    book = (
        f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheets><sheet name="Dados" sheetId="1" r:id="rId1"/></sheets>'
        "</workbook>"
    )
    sheet = (
        f'<worksheet xmlns="{_SHEET}" xmlns:r="{_OFFICE}"><sheetData><row r="1"><c r="A1" t="inlineStr"><is>'
        f'<t>{escape(text)}</t></is></c></row></sheetData><hyperlinks><hyperlink ref="A1" r:id="rId1"/></hyperlinks>'
        "</worksheet>"
    )
    return _office_package("xl/workbook.xml", f"{XLSX}.main+xml", {
        "xl/workbook.xml": book,
        "xl/_rels/workbook.xml.rels": _relationships(("rId1", "worksheet", "worksheets/sheet1.xml")),
        "xl/worksheets/sheet1.xml": sheet,
        "xl/worksheets/_rels/sheet1.xml.rels": _relationships(("rId1", "hyperlink", link)),
    })  # fmt: skip


def pptx(text: str, link: str) -> bytes:
    show = (
        f'<p:presentation xmlns:p="{_SLIDE}" xmlns:r="{_OFFICE}"><p:sldIdLst><p:sldId id="256" r:id="rId1"/>'
        "</p:sldIdLst></p:presentation>"
    )
    slide = (
        f'<p:sld xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}" xmlns:r="{_OFFICE}"><p:cSld><p:spTree><p:sp><p:txBody><a:p>'
        f'<a:r><a:rPr><a:hlinkClick r:id="rId1"/></a:rPr><a:t>{escape(text)}</a:t></a:r></a:p></p:txBody></p:sp>'
        "</p:spTree></p:cSld></p:sld>"
    )
    return _office_package("ppt/presentation.xml", f"{PPTX}.main+xml", {
        "ppt/presentation.xml": show,
        "ppt/_rels/presentation.xml.rels": _relationships(("rId1", "slide", "slides/slide1.xml")),
        "ppt/slides/slide1.xml": slide,
        "ppt/slides/_rels/slide1.xml.rels": _relationships(("rId1", "hyperlink", link)),
    })  # fmt: skip


def odt(text: str, link: str) -> bytes:
    content = (
        f'{_XML}<office:document-content xmlns:office="{_ODF}office:1.0" xmlns:text="{_ODF}text:1.0" '
        'xmlns:xlink="http://www.w3.org/1999/xlink" office:version="1.2"><office:body><office:text><text:p>'
        f'<text:a xlink:type="simple" xlink:href={quoteattr(link)}>{escape(text)}</text:a></text:p></office:text>'
        "</office:body></office:document-content>"
    )
    manifest = (
        f'{_XML}<manifest:manifest xmlns:manifest="{_ODF}manifest:1.0"><manifest:file-entry manifest:full-path="/" '
        f'manifest:media-type="{ODT}"/><manifest:file-entry manifest:full-path="content.xml" '
        'manifest:media-type="text/xml"/></manifest:manifest>'
    )
    return _zip({"mimetype": ODT, "content.xml": content, "META-INF/manifest.xml": manifest})


def _relationships(*them: tuple[str, str, str]) -> str:
    """The relationships of an OPC part: id, kind, target. Links lead out of the package."""
    outside = ' TargetMode="External"'
    items = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target={quoteattr(target)}'
        f"{outside if kind == 'hyperlink' else ''}/>"
        for name, kind, target in them
    )
    return f'{_XML}<Relationships xmlns="{_PACKAGE}/relationships">{items}</Relationships>'


def _office_package(main: str, main_type: str, parts: dict[str, str]) -> bytes:
    types = (
        f'{_XML}<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        f'<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{main_type}"/></Types>'
    )
    first = {"[Content_Types].xml": types, "_rels/.rels": _relationships(("rId1", "officeDocument", main))}
    return _zip(first | {name: text if text.startswith("<?xml") else _XML + text for name, text in parts.items()})


def _zip(parts: dict[str, str]) -> bytes:
    """A ZIP dated 1980, so that its bytes never change; `mimetype` is not compressed (ODF 1.2 part 3, 3.3)."""
    store = io.BytesIO()
    with zipfile.ZipFile(store, "w") as members:
        for name, text in parts.items():
            how = zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED
            members.writestr(zipfile.ZipInfo(name), text, how)
    return store.getvalue()
