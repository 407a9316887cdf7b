"""Finds the main content of a page: its article or body text, without menus, footers, comments and lists of links.

Promises: the content is whole lines of the page's text, in their order. One walk over the tree and one over the lines:
the cost grows with the number of elements and lines, and a page with more than TAGS_MAX tags has no main content.
Pure. Knows no site; knows the names that authors give to the parts of a page, which are mostly English.

The text is laid out together with the spans of its blocks and links. Each line has a weight: its letters outside links
if it reads as prose, less than nothing if it is mostly a link or too short. Lines of a part that is named as no content
(`nav`, `class="related"`) weigh nothing, unless most of the prose is there. The root is the block that weighs most; a
block that is named as content (`article`, `class="entry-content"`) needs less weight. Of the root's lines, the run that
weighs most is the content: the title and byline before the text and the links after it are left out, and a short line
between paragraphs stays. A page without prose has as content all lines that are neither links nor in an excluded part.
Known weakness: captions are left out, and so are short lines at the end; prose of a part with an unknown name, such as
comments, may be taken for content.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, compress, count
from operator import add
from typing import NamedTuple

from turbohtml import Document, PlainText

TAGS_MAX = 200_000
TAG_LENGTH_MIN = 3
NAME_LENGTH_MAX = 200  # of a class or id: no more of it is read
NAMES_REMEMBERED = 8_192

PROSE_CHARS_MIN = 80  # of a line outside a paragraph
PARAGRAPH_CHARS_MIN = 25
BLOCK_CHARS_MIN = 80  # a smaller block is not looked at
SHORT_LINE_WEIGHT = -10
LINK_WEIGHT_MAX = 100  # of one line
NAMED_SHARE_MIN = 0.6  # of the greatest weight: what a block that is named as content needs
ROOT_SHARE_MIN = 0.95  # the same of another block: the smallest such block is the root
EXCLUDED_SHARE_MAX = 0.5  # of the prose: a part that has more is content, whatever its name

_LAYOUT = PlainText(layout="strict", bullet="", table_cell_separator=" ")
_EXCLUDED_MARK, _NAMED_MARK = "tarrafa-excluded", "tarrafa-content"
_NAMED_TAGS = ("div", "section", "ul", "ol", "header", "table", "figure", "dl")
_EXCLUDED, _LINK, _HEADING, _PARAGRAPH, _CODE = "excluded", "link", "heading", "paragraph", "code"
_BLOCK, _NAMED_BLOCK = "block", "named block"
_LINE_KINDS = ("", _PARAGRAPH, _CODE, _HEADING)  # a later one has precedence
_CHARS_MIN = (PROSE_CHARS_MIN, PARAGRAPH_CHARS_MIN, 1, 0)  # of prose, by kind; headings are never prose
_RULES = {
    tag: [kind]
    for kind, tags in {
        _EXCLUDED: ("nav", "aside", "footer", "form", "button", "label", "figcaption", f"#{_EXCLUDED_MARK}"),
        _LINK: ("a",),
        _HEADING: ("h1", "h2", "h3", "h4", "h5", "h6"),
        _PARAGRAPH: ("p", "blockquote", "dd", "ul", "ol"),
        _CODE: ("pre",),
        _BLOCK: ("body", "div", "section", "td"),
        _NAMED_BLOCK: ("article", "main", f"#{_NAMED_MARK}"),
    }.items()
    for tag in tags
}

_content_name = re.compile(
    r"(?:article|story|post|entry|content|page)[-_]*(?:body|content|text)|main-?content|(?:^|\s)(?:post|content|article)(?:$|\s)",
    re.IGNORECASE,
).search
_excluded_name = re.compile(
    r"nav|menu|footer|comment|disqus|share|sharing|social|related|recommend|promo|sponsor|advert|newsletter|subscri"
    r"|breadcrumb|byline|author|widget|popup|modal|cookie|banner|copyright|pagination|pager|tags|masthead|outbrain|taboola"
    r"|read-?more|most-?(?:read|popular)|trending|skip|login|signup|caption|hidden|print|meta\b|credit|teaser|reply|respond",
    re.IGNORECASE,
).search

LineRange = tuple[int, int]  # the first line, and the line after the last


class LaidOutText(NamedTuple):
    """The text of a page with the spans of its blocks and links."""

    text: str
    spans: list[tuple[int, int, str]]


class _Lines(NamedTuple):
    """What is known of the lines of a text. Empty lines have no number."""

    lengths: list[int]  # 0: only white space
    linked: list[int]  # characters inside links
    ranges: dict[str, list[LineRange]]  # of each kind but links


def lay_out(document: Document, markup: str) -> LaidOutText:
    """The text of a page, and its spans; none if its markup has too many tags. Marks elements of the tree with
    attributes.
    """
    if len(markup) > TAGS_MAX * TAG_LENGTH_MIN and markup.count("<") > TAGS_MAX:
        return LaidOutText(document.to_text(_LAYOUT), [])
    for tag in _NAMED_TAGS:
        for element in document.find_all(tag):
            mark = _mark((element.attr("class") or "")[:NAME_LENGTH_MAX])
            if mark or (mark := _mark((element.attr("id") or "")[:NAME_LENGTH_MAX])):
                element.attrs[mark] = ""
    return LaidOutText(*document.to_annotated_text(_RULES, _LAYOUT))


@lru_cache(NAMES_REMEMBERED)
def _mark(name: str) -> str:
    if _content_name(name):
        return _NAMED_MARK
    return _EXCLUDED_MARK if _excluded_name(name) else ""


def content_spans(laid_out: LaidOutText, text: str) -> tuple[tuple[int, int], ...]:
    """Where the main content is in `text`, which is the same text with its lines normalized."""
    if not laid_out.spans:
        return ()
    starts = list(map(add, accumulate(map(len, text.split("\n")), initial=0), count()))
    last = len(starts) - 1  # the text may be cut
    ranges = ((first, min(end, last)) for first, end in _content_ranges(laid_out))
    return tuple((starts[first], starts[end] - 1) for first, end in ranges if first < end)


def _content_ranges(laid_out: LaidOutText) -> Iterator[LineRange]:
    lines = _read_lines(laid_out)
    weights = _weigh(lines)
    prose = list(accumulate([weight if weight > 0 else 0 for weight in weights], initial=0))
    excluded = bytearray(len(weights))
    for first, end in lines.ranges[_EXCLUDED]:
        if prose[end] - prose[first] <= EXCLUDED_SHARE_MAX * prose[-1]:
            excluded[first:end] = b"\1" * (end - first)
    for number in compress(range(len(weights)), excluded):
        weights[number] = 0
    first, end = _best_run(weights, *_root(weights, lines.ranges))
    if first == end:  # no prose: all that is neither excluded nor a link
        first, end = 0, len(weights)
        pairs = zip(excluded, weights, strict=True)
        excluded = bytearray(left_out or weight < SHORT_LINE_WEIGHT for left_out, weight in pairs)
    numbers = list(accumulate(map(bool, lines.lengths), initial=0))  # in a text without blank lines
    while (first := excluded.find(0, first, end)) >= 0:
        after = excluded.find(1, first, end)
        after = end if after < 0 else after
        yield numbers[first], numbers[after]
        first = after


def _read_lines(laid_out: LaidOutText) -> _Lines:
    raw = laid_out.text.split("\n")
    starts = list(compress(map(add, accumulate(map(len, raw), initial=0), count()), raw))
    starts[:1], lengths = [0], list(map(len, map(str.strip, filter(None, raw))))
    starts.append(len(laid_out.text) + 1)
    linked, whole = [0] * len(lengths), bytearray(len(lengths))
    ranges: dict[str, list[LineRange]] = {kind[0]: [] for kind in _RULES.values()}
    for start, end, kind in laid_out.spans:
        if kind == _BLOCK and end - start < BLOCK_CHARS_MIN:
            continue
        first = bisect_right(starts, start) - 1
        after = first + 1 if end <= starts[first + 1] else bisect_right(starts, end - 1, first)
        if kind != _LINK:
            ranges[kind].append((first, after))
        elif after - first == 1:
            linked[first] += end - start
        else:
            whole[first:after] = b"\1" * (after - first)
    for number in compress(range(len(lengths)), whole):
        linked[number] = lengths[number]
    return _Lines(lengths, linked, ranges)


def _weigh(lines: _Lines) -> list[int]:
    kinds, weights = bytearray(len(lines.lengths)), []
    for kind in _LINE_KINDS[1:]:
        mark = bytes([_LINE_KINDS.index(kind)])
        for first, end in lines.ranges[kind]:
            kinds[first:end] = mark * (end - first)
    for length, linked, kind_mark in zip(lines.lengths, lines.linked, kinds, strict=True):
        chars_min = _CHARS_MIN[kind_mark]
        if not length or not chars_min:
            weights.append(0)
        elif 2 * linked > length:
            weights.append(SHORT_LINE_WEIGHT - min(length, LINK_WEIGHT_MAX))
        else:
            weights.append(length - linked if length - linked >= chars_min else SHORT_LINE_WEIGHT)
    return weights


def _root(weights: list[int], ranges: dict[str, list[LineRange]]) -> LineRange:
    """The smallest block that is named as content, or else the smallest of all, with nearly the greatest weight."""
    sums = list(accumulate(weights, initial=0))
    named, blocks = ranges[_NAMED_BLOCK], [*ranges[_BLOCK], *ranges[_NAMED_BLOCK], (0, len(weights))]
    best = max(sums[end] - sums[first] for first, end in blocks)
    for candidates, share in ((named, NAMED_SHARE_MIN), (blocks, ROOT_SHARE_MIN)):
        if fit := [(end - first, first) for first, end in candidates if sums[end] - sums[first] >= share * best]:
            size, first = min(fit)
            return first, first + size
    return 0, len(weights)


def _best_run(weights: list[int], first: int, end: int) -> LineRange:
    """The run of lines between these two that weighs most."""
    best, total, start, run = 0, 0, first, (first, first)
    for number in range(first, end):
        if total <= 0:
            total, start = 0, number
        total += weights[number]
        if total > best:
            best, run = total, (start, number + 1)
    return run
