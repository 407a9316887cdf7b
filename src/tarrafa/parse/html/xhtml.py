"""Parses well-formed XHTML as XML into a document tree.

Promises: the tree of a document that is well-formed XML, and None for every other (browsers show an error; we read it
as HTML). HTML's named characters are known without any DTD; nothing else that a doctype declares is, so no entity can
grow. CDATA sections are text.
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
    """With the sections as text. (One that never ends is looked for once: a pattern would, for each that begins.)"""
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
