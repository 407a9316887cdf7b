"""Divides the text of a page into its content, its other lines, and the template of its site.

Promises: every character other than white space is in exactly one part, in its order; any spans will do, also those of
a damaged record. Pure. Knows nothing of tantivy.
"""

import re
from typing import NamedTuple

from tarrafa.model import Page

_OTHER, _CONTENT, _TEMPLATE, _LISTED = range(4)  # kinds of characters
_runs = re.compile(rb"\x00+|\x01+|\x02+|\x03+").finditer
_listed = bytes((_LISTED, _CONTENT)) + bytes(range(2, 256))  # of a list of links, what is not in the content


class TextParts(NamedTuple):
    """The text of a page. `own`: content and other lines, in the order of the page. `template`: lists of links outside
    the content, then lines that repeat over the pages of the host.
    """

    own: str
    content: str
    other: str = ""
    template: str = ""
    listed_chars: int = 0  # of lists of links that are neither content nor repeated


def text_parts(page: Page) -> TextParts:
    text, has_template = page.text, bool(page.template_spans or page.link_list_spans)
    if not has_template and (not page.content_spans or page.content_spans == ((0, len(text)),)):
        return TextParts(text, text) if page.content_spans else TextParts(text, "", text)
    kinds = bytearray(len(text))
    for start, end in page.content_spans:
        kinds[start:end] = b"\x01" * len(kinds[start:end])
    for start, end in page.link_list_spans:
        kinds[start:end] = kinds[start:end].translate(_listed)
    for start, end in page.template_spans:
        kinds[start:end] = b"\x02" * len(kinds[start:end])
    parts: dict[int, list[str]] = {_OTHER: [], _CONTENT: [], _LISTED: [], _TEMPLATE: []}
    own: list[str] = []
    for run in _runs(kinds):
        kind = run[0][0]
        if piece := text[run.start() : run.end()].strip():
            parts[kind].append(piece)
            if kind in (_OTHER, _CONTENT):
                own.append(piece)
    other, content, template = (
        "\n".join(several) for several in (parts[_OTHER], parts[_CONTENT], parts[_LISTED] + parts[_TEMPLATE])
    )
    return TextParts("\n".join(own) if has_template else text, content, other, template, kinds.count(_LISTED))
