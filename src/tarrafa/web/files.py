"""What is in a file that is no page?

Promises: small bodies that are what their type says (a PNG that opens, a PDF with one page, a ZIP with one member),
the same for the same owner.
Knows nothing of hosts or HTTP.
"""

import io
import struct
import zipfile
import zlib


def png(shade: int) -> bytes:
    """Eight by eight grey pixels."""
    rows = b"".join(b"\x00" + bytes([shade & 0xFF]) * 8 for _ in range(8))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pdf(text: str, link: str = "", trailer: bytes = b"") -> bytes:
    """One page with one line on it, which may be a link; cross-reference table and all."""
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
    """A ZIP of one text file, dated 1980 so that it is always the same."""
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
