"""Parses well-formed XHTML as XML into a document tree.

Promises: the tree of a document that is well-formed XML, and None for any other document (browsers show an error; the
caller reads it as HTML). HTML's named characters are known without a DTD. Other declarations of a doctype are ignored,
so no entity can expand. CDATA sections become text.
Knows nothing of RDFa.
"""

import re
from html import escape
from html.entities import html5

from turbohtml import Document, HTMLParseError, parse_xml

_entity = re.compile(r"&([A-Za-z][A-Za-z0-9]*;)")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})


def parse_xhtml(markup: str) -> Document | None:
    """The document read as XML; None if it is not well-formed."""
    markup = markup.removeprefix("\ufeff")
    markup = _without_cdata(markup)
    if "&" in markup:
        markup = _entity.sub(_numbered, markup)
    try:
        return parse_xml(markup)
    except (HTMLParseError, ValueError):
        return None


def _without_cdata(markup: str) -> str:
    """The markup with CDATA sections turned into text. An unclosed section is searched for once; a regular expression
    would search again for each opening.
    """
    parts: list[str] = []
    place = 0
    while (start := markup.find(_CDATA, place)) >= 0 and (end := markup.find(_CDATA_END, start)) >= 0:
        parts += markup[place:start], escape(markup[start + len(_CDATA) : end], quote=False)
        place = end + len(_CDATA_END)
    return "".join((*parts, markup[place:])) if parts else markup


def _numbered(found: re.Match[str]) -> str:
    characters = html5.get(found[1])
    if characters is None or found[1] in _XML_NAMES:
        return found[0]
    return "".join(f"&#{ord(character)};" for character in characters)
