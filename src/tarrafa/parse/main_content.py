"""Finds the main content of a page: its article or body text, without menus, footers, comments and lists of links; and
its lists of links.

Promises: content and lists of links are whole lines of the page's text, in their order, and share none. One walk over
the tree and one over the lines: the cost grows with the number of elements and lines, and a page with more than
TAGS_MAX tags has no main content.
Two ways with the same result: compiled kernels (`text_kernels`, where the weights and shares are, too), and `_divide`,
which is the definition.
Pure. Knows no site; knows the names that authors give to the parts of a page, which are mostly English.

The text is laid out together with the spans of its blocks and links. Each line has a weight: its letters outside links
if it reads as prose, less than nothing if it is mostly a link or too short; a short row of a table weighs nothing.
Lines of a part that is named as no content (`nav`, `class="related"`) weigh nothing, unless most of the prose is there.
The root is the block that weighs most; a block that is named as content (`article`, `class="entry-content"`) needs less
weight. Of the root's lines, the run that weighs most is the content: the title and byline before the text and the links
after it are left out, and a short line between paragraphs stays. A page with hardly any prose, such as the reference of
a class, has as content all lines of its root that are neither links nor in an excluded part; its root is the block with
most of these characters.
A list of links is a run of lines outside the content of which most are links.
Known weakness: captions are left out, and so are short lines at the end; prose of a part with an unknown name, such as
comments, may be taken for content.
"""

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate, compress, count
from operator import add, and_, or_
from typing import NamedTuple

from turbohtml import Document, PlainText

from tarrafa.parse.text_kernels import (
    BLOCK_CHARS_MIN,
    CODE_SPANS,
    CONTENT_SPANS,
    ENDS,
    EXCLUDED_SHARE_MAX,
    LINK_LIST_SPANS,
    LINK_WEIGHT_MAX,
    LIST_GAP_CHARS_MAX,
    LISTED_LINKS_MIN,
    NAMED_BLOCK,
    NAMED_SHARE_MIN,
    PARAGRAPH_CHARS_MIN,
    PROSE_CHARS_MIN,
    PROSE_PAGE_CHARS_MIN,
    PROSE_PAGE_SHARE_MIN,
    RAW_ENDS,
    RAW_STARTS,
    ROOT_SHARE_MIN,
    ROWS,
    SAMPLE_CHARS_MIN,
    SAMPLE_SPANS,
    SHORT_LINE_WEIGHT,
    SHORT_ROOT_SHARE_MIN,
    STARTS,
    code_points,
    kernels,
)
from tarrafa.runtime.compiled_kernels import CompiledFunction

TAGS_MAX = 200_000
TAG_LENGTH_MIN = 3
NAME_LENGTH_MAX = 200  # of a class or id: no more of it is read
NAMES_REMEMBERED = 8_192
HEADINGS_MAX = 50  # of a level, that are looked for in cells
HEADED_CELL_RATIO, HEADED_CELL_CHARS_MIN = 3, 100  # of a cell to its heading, in the layout of a page

_LAYOUT = PlainText(layout="strict", bullet="", table_cell_separator=" ")
_EXCLUDED_MARK, _NAMED_MARK = "tarrafa-excluded", "tarrafa-content"
_HEADINGS = ("h1", "h2", "h3", "h4")
_NAMED_TAGS = ("div", "section", "ul", "ol", "header", "table", "figure", "dl")


def _marked(mark: str) -> list[str]:
    return [f"{tag}#{mark}" for tag in _NAMED_TAGS]  # "#mark" alone is looked for in every element


_LINK, _HEADING, _PARAGRAPH, _CODE, _TABLE, _EXCLUDED, _CODE_WORDS, _BLOCK, _NAMED_BLOCK = map(
    chr, range(NAMED_BLOCK + 1)
)
_LINE_KINDS = ("", _PARAGRAPH, _CODE, _HEADING)  # a later one has precedence
_INVERTED = bytes([1, 0]) + bytes(254)
_CHARS_MIN = (PROSE_CHARS_MIN, PARAGRAPH_CHARS_MIN, 1, 0)  # of prose, by kind; headings are never prose
_RULES = {
    selector: [kind]
    for kind, selectors in {
        _EXCLUDED: ("nav", "aside", "footer", "form", "button", "label", "figcaption", *_marked(_EXCLUDED_MARK)),
        _LINK: ("a#href",),  # without it, an anchor: often one that is never closed
        _HEADING: ("h1", "h2", "h3", "h4", "h5", "h6"),
        _PARAGRAPH: ("p", "blockquote", "dd", "ul", "ol"),
        _CODE: ("pre",),
        _TABLE: ("table",),
        _CODE_WORDS: ("code", "kbd", "samp"),
        _BLOCK: ("body", "div", "section", "td"),
        _NAMED_BLOCK: ("article", "main", *_marked(_NAMED_MARK)),
    }.items()
    for selector in selectors
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
# An id is often made of a heading ("sponsoring-packages") or of a function ("printKeyCodes"): a few whole words decide.
_excluded_id_word = re.compile(
    r"nav\w*|\w*(?:nav|menu|footer)|comment(?:s|list|form)?|disqus\w*|share|sharing|social\w*|related|recommend(?:ed|ations)?"
    r"|promos?|sponsors?|sponsored|advert\w*|newsletter|subscri\w+|breadcrumbs?|byline|authors?|widgets?|popup|modal|cookies?"
    r"|banner|copyright|pagination|pager|tags|masthead|outbrain|taboola|readmore|trending|skip|login|signup|caption|hidden"
    r"|print|meta|credits?|teaser|reply|respond"
).fullmatch
_id_words = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+").findall
ID_WORDS_MAX = 2

LineRange = tuple[int, int]  # the first line, and the line after the last
Spans = tuple[tuple[int, int], ...]


class LaidOutText(NamedTuple):
    """The text of a page with the spans of its blocks and links."""

    text: str
    spans: list[tuple[int, int, str]]


class PageParts(NamedTuple):
    """Where content, lists of links and code are in a text, and lines that show its language."""

    content_spans: Spans
    link_list_spans: Spans
    code_spans: Spans
    sample: str


class _Lines(NamedTuple):
    """What is known of the lines of a text."""

    lengths: list[int]
    linked: list[int]  # characters inside links
    code: bytearray  # 1: mostly code
    ranges: dict[str, list[LineRange]]  # of each kind but links and code words


class _Marks(dict[str, str]):
    """What the names of parts say of them."""

    def __init__(self, is_excluded: Callable[[str], object]) -> None:
        super().__init__()
        self._is_excluded = is_excluded

    def __missing__(self, name: str) -> str:
        own = name[:NAME_LENGTH_MAX]
        mark = _NAMED_MARK if _content_name(own) else _EXCLUDED_MARK if self._is_excluded(own) else ""
        if len(self) >= NAMES_REMEMBERED:
            self.clear()
        if len(name) <= NAME_LENGTH_MAX:
            self[name] = mark
        return mark


def _excluded_id(name: str) -> bool:
    several = _id_words(name)
    return len(several) <= ID_WORDS_MAX and any(_excluded_id_word(word.lower()) for word in several)


_class_marks, _id_marks = _Marks(_excluded_name), _Marks(_excluded_id)


def lay_out(document: Document, markup: str) -> LaidOutText:
    """The text of a page, and its spans; none if its markup has too many tags. Marks elements of the tree with
    attributes.
    """
    if len(markup) > TAGS_MAX * TAG_LENGTH_MIN and markup.count("<") > TAGS_MAX:
        return LaidOutText(document.to_text(_LAYOUT), [])
    _open_layout_tables(document)
    of_classes, of_ids = _class_marks, _id_marks
    for tag in _NAMED_TAGS:
        for element in document.find_all(tag):
            mark = of_classes[name] if (name := element.attr("class")) else ""
            if mark or ((name := element.attr("id")) and (mark := of_ids[name])):
                element.attrs[mark] = ""
    return LaidOutText(*document.to_annotated_text(_RULES, _LAYOUT))


def _open_layout_tables(document: Document) -> None:
    """A table with a cell that holds a heading and a text below it is no table, but the layout of a page: it becomes a
    block, so that its cells are no columns of one line, and what they hold has lines and spans of its own.
    """
    if document.find("td") is None:
        return
    opened = False
    for tag in _HEADINGS:
        for heading in document.find_all(tag)[:HEADINGS_MAX]:
            cell = heading.closest("td")
            if cell is None or cell.closest("table") is None:
                continue
            if len(cell.text) > HEADED_CELL_RATIO * len(heading.text) + HEADED_CELL_CHARS_MIN:
                while (table := cell.closest("table")) is not None:
                    table.tag, opened = "div", True
    for cell in document.find_all("td") if opened else ():
        if cell.closest("table") is None:
            cell.tag = "div"


def divide(laid_out: LaidOutText, text: str) -> PageParts:
    """The parts of `text`, which is the laid out text with its lines normalized."""
    if not laid_out.spans or not text:
        return PageParts((), (), (), text)
    compiled = kernels.get()
    return (compiled and _divide_compiled(laid_out, text, compiled)) or _divide(laid_out, text)


def _divide_compiled(laid_out: LaidOutText, text: str, compiled: Mapping[str, CompiledFunction]) -> PageParts | None:
    """The parts by compiled kernels; None if the text is not for them. All numbers of lines are in one array; see
    `text_kernels` for its rows."""
    raw, own = code_points(laid_out.text), code_points(text)
    if raw is None or own is None:
        return None
    size = text.count("\n") + 1
    width = size + 2
    rows = array("q", bytes(8 * ROWS * width))
    at, _ = rows.buffer_info()
    raw_starts, raw_ends, starts, ends = (at + 8 * width * row for row in (RAW_STARTS, RAW_ENDS, STARTS, ENDS))
    find_raw, raw_length = compiled[f"find_lines_{raw.bits}"], len(laid_out.text)
    if find_raw(raw.content, raw_length, raw_starts, raw_ends, size + 1, 0) != size:
        find_raw(raw.content, raw_length, raw_starts, raw_ends, size, 1)  # some have spaces only; or the text was cut
    compiled[f"find_lines_{own.bits}"](own.content, len(text), starts, ends, size, 0)
    for row, last in ((RAW_STARTS, raw_length), (RAW_ENDS, raw_length), (STARTS, len(text))):
        rows[width * row + size] = last + 1
    span_starts, span_ends, kinds = zip(*laid_out.spans, strict=True)
    first, after = array("q", span_starts), array("q", span_ends)
    compiled["divide"](first.buffer_info()[0], after.buffer_info()[0], "".join(kinds).encode(), len(kinds), at, size)

    def spans(row: int) -> Spans:
        found = rows[width * row : width * row + rows[width * (row + 1) - 1]].tolist()
        return tuple(zip(found[::2], found[1::2], strict=True))

    sample = "\n".join([text[start:end] for start, end in spans(SAMPLE_SPANS)])
    return PageParts(spans(CONTENT_SPANS), spans(LINK_LIST_SPANS), spans(CODE_SPANS), sample)


def _divide(laid_out: LaidOutText, text: str) -> PageParts:
    """The definition, and the Python way."""
    own = text.split("\n")
    lines = _read_lines(laid_out, own)
    weights = _weigh(lines)
    excluded = _excluded(lines, weights)
    is_content = _content_lines(lines, weights, excluded)
    is_link = bytes([weight < SHORT_LINE_WEIGHT for weight in weights])
    starts = list(map(add, accumulate(lines.lengths, initial=0), count()))
    return PageParts(
        tuple(spans_of(runs(is_content), starts)),
        tuple(spans_of(_link_lists(is_link, is_content, lines.lengths), starts)),
        tuple(spans_of(runs(lines.code), starts)),
        _sample(own, is_content, lines.code, map(or_, excluded, is_link)),
    )


def spans_of(ranges: Iterable[LineRange], starts: list[int]) -> Iterator[tuple[int, int]]:
    """Where ranges of lines are in a text whose lines begin at `starts`."""
    return ((starts[first], starts[end] - 1) for first, end in ranges)


def runs(marked: bytearray) -> Iterator[LineRange]:
    """The runs of marked lines."""
    end = 0
    while (first := marked.find(1, end)) >= 0:
        end = marked.find(0, first)
        end = len(marked) if end < 0 else end
        yield first, end


def _excluded(lines: _Lines, weights: list[int]) -> bytearray:
    """Marks the lines of parts that are named as no content."""
    prose = list(accumulate([weight if weight > 0 else 0 for weight in weights], initial=0))
    excluded = bytearray(len(weights))
    for first, end in lines.ranges[_EXCLUDED]:
        if prose[end] - prose[first] <= EXCLUDED_SHARE_MAX * prose[-1]:
            excluded[first:end] = b"\1" * (end - first)
    return excluded


def _content_lines(lines: _Lines, weights: list[int], excluded: bytearray) -> bytearray:
    """Marks the lines of the content."""
    counted = [0 if left_out else weight for weight, left_out in zip(weights, excluded, strict=True)]
    first, end = _best_run(counted, *_root(counted, lines.ranges, ROOT_SHARE_MIN))
    is_left_out = bytes([out or weight < SHORT_LINE_WEIGHT for out, weight in zip(excluded, weights, strict=True)])
    chars = [
        0 if out else max(0, length - linked)
        for out, length, linked in zip(is_left_out, lines.lengths, lines.linked, strict=True)
    ]
    content, out = bytearray(len(weights)), bytes(excluded)
    prose = sum(chars[first:end])
    if prose < PROSE_PAGE_CHARS_MIN and prose < PROSE_PAGE_SHARE_MIN * sum(chars):
        (first, end), out = _root(chars, lines.ranges, SHORT_ROOT_SHARE_MIN), is_left_out
    content[first:end] = out[first:end].translate(_INVERTED)
    return content


def _link_lists(is_link: bytes, is_content: bytearray, lengths: list[int]) -> Iterator[LineRange]:
    """The runs of links outside the content; one short line may stand between two links."""
    is_listed = bytes([link and not content for link, content in zip(is_link, is_content, strict=True)])
    first = is_listed.find(1)
    while first >= 0:
        end, links = first + 1, 1
        while end < len(is_listed):
            if is_listed[end]:
                links, end = links + 1, end + 1
            elif is_listed[end + 1 : end + 2] == b"\1" and not is_content[end] and lengths[end] <= LIST_GAP_CHARS_MAX:
                end += 1
            else:
                break
        if links >= LISTED_LINKS_MIN:
            yield first, end
        first = is_listed.find(1, end)


def _sample(own: list[str], is_content: bytearray, code: bytearray, left_out: Iterable[int]) -> str:
    """The content without code; if there is hardly any, what else is neither code nor link nor excluded."""
    words = code.translate(_INVERTED)
    sample = "\n".join(compress(own, map(and_, is_content, words)))
    if len(sample) >= SAMPLE_CHARS_MIN:
        return sample
    return "\n".join(compress(own, (word and not other for word, other in zip(words, left_out, strict=True))))


def _line_places(raw: str, own: list[str]) -> tuple[list[int], list[int]]:
    """Where the lines of a text begin and end in the same text before it was normalized, which has blank lines, too."""
    laid = raw.split("\n")
    starts = list(compress(map(add, accumulate(map(len, laid), initial=0), count()), laid))
    laid = list(filter(None, laid))
    if len(starts) != len(own):  # some have spaces only; or the text was cut
        is_own = list(map(str.strip, laid))
        starts, laid = (list(compress(some, is_own))[: len(own)] for some in (starts, laid))
    return starts, list(map(add, starts, map(len, laid)))


def _read_lines(laid_out: LaidOutText, own: list[str]) -> _Lines:
    (starts, ends), lengths, size = _line_places(laid_out.text, own), list(map(len, own)), len(own)
    starts.append(len(laid_out.text) + 1)
    ends.append(starts[-1])
    linked, coded, whole = [0] * size, [0] * size, bytearray(size)
    ranges: dict[str, list[LineRange]] = {kind[0]: [] for kind in _RULES.values()}
    first, this, following = 0, 0, ends[0]  # a line, the end of the one before, and its own
    for start, end, kind in laid_out.spans:
        if kind == _BLOCK and end - start < BLOCK_CHARS_MIN:
            continue
        if not this <= start < following:  # many spans are in the line of the one before
            first = bisect_right(ends, start)
            this, following = ends[first - 1] if first else 0, ends[first]
        after = first + 1 if starts[first] < end <= following else bisect_right(starts, end - 1, first)
        if not first < after <= size:  # spaces between two lines, or behind the last one
            continue
        if kind == _LINK:
            if after - first == 1:
                linked[first] += end - start
            else:
                whole[first:after] = b"\1" * (after - first)
        elif kind == _CODE_WORDS:
            coded[first] += end - start
        else:
            ranges[kind].append((first, after))
    for number in compress(range(size), whole):
        linked[number] = lengths[number]
    code = bytearray(size)
    for number in compress(range(size), coded):
        code[number] = 2 * coded[number] > lengths[number]
    for first, after in ranges[_CODE]:
        code[first:after] = b"\1" * (after - first)
    return _Lines(lengths, linked, code, ranges)


def _weigh(lines: _Lines) -> list[int]:
    kinds, weights = bytearray(len(lines.lengths)), []
    for kind in _LINE_KINDS[1:]:
        mark = bytes([_LINE_KINDS.index(kind)])
        for first, end in lines.ranges[kind]:
            kinds[first:end] = mark * (end - first)
    is_row = bytearray(len(lines.lengths))
    for first, end in lines.ranges[_TABLE]:
        is_row[first:end] = b"\1" * (end - first)
    for length, linked, kind_mark, row in zip(lines.lengths, lines.linked, kinds, is_row, strict=True):
        chars_min = _CHARS_MIN[kind_mark]
        if not length or not chars_min:
            weights.append(0)
        elif 2 * linked > length:
            weights.append(SHORT_LINE_WEIGHT - min(length, LINK_WEIGHT_MAX))
        else:
            weights.append(length - linked if length - linked >= chars_min else 0 if row else SHORT_LINE_WEIGHT)
    return weights


def _root(weights: list[int], ranges: dict[str, list[LineRange]], block_share: float) -> LineRange:
    """The smallest block that is named as content, or else the smallest of all, with nearly the greatest weight."""
    sums = list(accumulate(weights, initial=0))
    named, blocks = ranges[_NAMED_BLOCK], [*ranges[_BLOCK], *ranges[_NAMED_BLOCK], (0, len(weights))]
    best = max(sums[end] - sums[first] for first, end in blocks)
    for candidates, share in ((named, NAMED_SHARE_MIN), (blocks, block_share)):
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
