"""What tree is a page that says it is XHTML?

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
_cdata = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})


def tree(markup: str) -> Document | None:
    """The document read as XML; None if it is not well-formed."""
    markup = markup.removeprefix("\ufeff")
    if "<![CDATA[" in markup:
        markup = _cdata.sub(lambda found: escape(found[1], quote=False), markup)
    if "&" in markup:
        markup = _entity.sub(_numbered, markup)
    try:
        return parse_xml(markup)
    except (HTMLParseError, ValueError):
        return None


def _numbered(found: re.Match[str]) -> str:
    characters = html5.get(found[1])
    if characters is None or found[1] in _XML_NAMES:
        return found[0]
    return "".join(f"&#{ord(character)};" for character in characters)
