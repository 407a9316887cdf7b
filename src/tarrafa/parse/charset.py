"""Decides the charset of a body (byte order mark, HTTP header, meta element, statistics) and decodes it.

Promises: the order that browsers follow: byte order mark, HTTP header, the declaration in the first 1,024 bytes of the
document. An undeclared body is UTF-8 if it is valid UTF-8, else the statistics that Firefox uses decide, else it is
windows-1252. Labels mean what the WHATWG Encoding Standard says (`iso-8859-1` is windows-1252). Any bytes give a text;
nothing raises.
Knows nothing of HTML beyond that declaration.
"""

import re

from turbohtml.detect import Detection, detect  # importing it also registers the `whatwg-*` codecs

PRESCAN_BYTES = 1_024  # HTML standard, "prescan a byte stream to determine its encoding"
SAMPLE_BYTES = 65_536  # sample for the statistics
CONTENT_TYPE_LENGTH_MAX = 1_024
BROKEN_SHARE_MAX = 0.05  # of the non-ASCII characters, in a text that is still taken for (damaged) UTF-8

UTF_8 = "utf-8"
FALLBACK = "windows-1252"

BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", UTF_8), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))

# The labels of https://encoding.spec.whatwg.org/#names-and-labels by encoding.
_NAMES = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf8 x-unicode20utf8",
    "ibm866": "866 cp866 csibm866",
    "iso-8859-2": "csisolatin2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso-8859-3": "csisolatin3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso-8859-4": "csisolatin4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso-8859-5": "csisolatincyrillic cyrillic iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso-8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6-e iso-8859-6-i "
    "iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso-8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "iso_8859-7:1987 sun_eu_greek",
    "iso-8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
    "iso_8859-8:1988 visual",
    "iso-8859-8-i": "csiso88598i logical",
    "iso-8859-10": "csisolatin6 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso-8859-13": "iso8859-13 iso885913",
    "iso-8859-14": "iso8859-14 iso885914",
    "iso-8859-15": "csisolatin9 iso8859-15 iso885915 iso_8859-15 l9",
    "iso-8859-16": "",
    "koi8-r": "cskoi8r koi koi8 koi8_r",
    "koi8-u": "koi8-ru",
    "macintosh": "csmacintosh mac x-mac-roman",
    "windows-874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620",
    "windows-1250": "cp1250 x-cp1250",
    "windows-1251": "cp1251 x-cp1251",
    "windows-1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii x-cp1252",
    "windows-1253": "cp1253 x-cp1253",
    "windows-1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "x-cp1254",
    "windows-1255": "cp1255 x-cp1255",
    "windows-1256": "cp1256 x-cp1256",
    "windows-1257": "cp1257 x-cp1257",
    "windows-1258": "cp1258 x-cp1258",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "gbk": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 iso-ir-58 x-gbk",
    "gb18030": "",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "cseucpkdfmtjapanese x-euc-jp",
    "iso-2022-jp": "csiso2022jp",
    "shift_jis": "csshiftjis ms932 ms_kanji shift-jis sjis windows-31j x-sjis",
    "euc-kr": "cseuckr csksc56011987 iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "replacement": "csiso2022kr hz-gb-2312 iso-2022-cn iso-2022-cn-ext iso-2022-kr",
    "utf-16be": "unicodefffe",
    "utf-16le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16",
    "x-user-defined": "",
}
LABELS = {label: name for name, labels in _NAMES.items() for label in (name, *labels.split())}
# Encodings that Python knows by another name than the WHATWG, or for which browsers use a superset.
PYTHON_CODECS = {
    "gbk": "gb18030",
    "macintosh": "mac-roman",
    "iso-8859-8-i": "iso-8859-8",
    "x-mac-cyrillic": "mac-cyrillic",
}

_header_charset = re.compile(r"""charset\s*=\s*["']?\s*([^\s"';,]+)""", re.IGNORECASE).search
_two_letters = re.compile(r"[a-z]{2}").fullmatch
_content_charset = re.compile(rb"""charset\s*=\s*["']?\s*([^\s"';]+)""", re.IGNORECASE).search
_xml_encoding = re.compile(rb"""<\?xml[^>]*?\sencoding\s*=\s*["']([^"'>]+)["']""").match
_tags = re.compile(
    rb"""<!--.*?-->|<(/?[a-z][^\s/>]*)((?:[^>"']|"[^"]*"|'[^']*')*)>""", re.IGNORECASE | re.DOTALL
).finditer
_attributes = re.compile(rb"""([^\s=/>"']+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+))""").finditer


def decode(body: bytes, content_type: str = "", tld: str = "") -> tuple[str, str]:
    """The text and the name of its encoding. `tld`, the last label of the host name, helps the statistics."""
    for mark, name in BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return _decoded(body[len(mark) :], name), name
    declared = from_header(content_type) or _from_document(body[:PRESCAN_BYTES])
    if declared is None:
        return _detect_undeclared(body, tld)
    return _decoded(body, declared), declared


def from_header(content_type: str) -> str | None:
    """The encoding that a Content-Type names, if it exists."""
    found = _header_charset(content_type[:CONTENT_TYPE_LENGTH_MAX])
    return LABELS.get(found[1].lower()) if found else None


def _decoded(body: bytes, name: str) -> str:
    if name == UTF_8:
        return body.decode(UTF_8, "replace")
    if name == "replacement":  # encodings that can hide markup: like the standard, give one U+FFFD
        return "\ufffd" if body else ""
    return body.decode(f"whatwg-{name}")


def _from_document(head: bytes) -> str | None:
    """The encoding that the document declares. A document that reads as ASCII this far is not UTF-16."""
    if head.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if head.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    name = None
    if found := _xml_encoding(head):
        name = _label(found[1])
    if name is None and b"charset" in head.lower():
        name = _from_meta(head)
    if name in ("utf-16le", "utf-16be"):
        return UTF_8
    return FALLBACK if name == "x-user-defined" else name


def _from_meta(head: bytes) -> str | None:
    for tag in _tags(head):
        if tag[1] is None or tag[1].lower() != b"meta":
            continue
        values = {found[1].lower(): found[2] or found[3] or found[4] or b"" for found in _attributes(tag[2])}
        charset = values.get(b"charset")
        if charset is None and values.get(b"http-equiv", b"").strip().lower() == b"content-type":
            found = _content_charset(values.get(b"content", b""))
            charset = found[1] if found else None
        if charset is not None and (name := _label(charset)):
            return name
    return None


def _label(raw: bytes) -> str | None:
    return LABELS.get(raw.decode("latin-1").strip("\t\n\f\r ").lower())


def _detect_undeclared(body: bytes, tld: str) -> tuple[str, str]:
    """Decode a body without any declaration."""
    try:
        return body.decode(UTF_8), UTF_8
    except UnicodeDecodeError:
        pass
    if _is_damaged_utf_8(body[:SAMPLE_BYTES]):
        return body.decode(UTF_8, "replace"), UTF_8
    hint = tld if _two_letters(tld) else None
    name = LABELS.get((detect(body[:SAMPLE_BYTES], Detection(tld=hint)).encoding or "").lower(), FALLBACK)
    return _decoded(body, name), name


def _is_damaged_utf_8(sample: bytes) -> bool:
    """Lenient: a few bad bytes, or a cut body, do not turn a UTF-8 page into a windows-1252 page."""
    text = sample.decode(UTF_8, "replace")
    broken = text.count("\ufffd")
    whole = len(text) - len(text.encode("ascii", "ignore")) - broken
    cut = broken == 1 and text.endswith("\ufffd")
    return whole > 0 and (cut or broken <= BROKEN_SHARE_MAX * whole)
