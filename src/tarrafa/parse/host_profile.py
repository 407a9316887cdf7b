"""HostProfile: what the pages of one host have in common: the lines of its template, the name in its titles, its
languages.

A crawler sees many pages of a host. A line that stands on many of them is its template, however it is marked up; the
end that many titles share is the site's name; a text too short to show its language is in the language of its site.
The profile learns from each page as it comes, and says of the same page: which lines are template, the headline, the
language, and the content without template.

Lines are counted by their 32-bit hash, long ones without their digits, once for each page. Rare lines are forgotten
when there are too many, and all counts are halved from time to time, so that a new design is learned. A line is
template if it was on LINE_PAGES_MIN pages and on LINE_SHARE_MIN of all: a line that a series of articles shares is not.
The same page visited again, and a page with the same text, are not counted twice; of a host that is known well, one
page in SAMPLED_ONE_IN is counted.

Promises: pure, bounded (STATE_LINES_MAX lines, some 3 KB stored), the same pages in the same order give the same
profile on every machine. What it says of a page is stored with the page, and not computed again from the archive.
Known weakness: the first pages of a host are judged by themselves; a host with many small sites in it has the template
of none of them.
"""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate, compress, count, repeat
from math import ceil
from operator import add, and_

import msgspec
import numpy as np
from msgspec.structs import replace
from xxhash import xxh32_intdigest

from tarrafa.model import Page
from tarrafa.parse import fingerprint, language
from tarrafa.parse.main_content import runs, spans_of
from tarrafa.parse.page_title import SiteAffixes, halved, keep_most_frequent
from tarrafa.parse.text_kernels import SAMPLE_CHARS_MIN

LINES_READ_MAX = 1_024  # of one page, half of them from its end
LINE_LENGTH_MAX = 400  # a longer one is not learned
WITHOUT_DIGITS_MIN = 20  # bytes of a line besides its digits, which then do not count
STATE_LINES_MAX = 400
LINE_PAGES_MIN = 5
LINE_SHARE_MIN = 0.25
CONTENT_LINE_SHARE_MIN = 0.5  # of a line in the content: on a small site the same teaser stands on many lists
PAGES_MAX = 250  # then all counts are halved; counts are stored in a byte
KNOWN_PAGES, SAMPLED_ONE_IN = 64, 8  # a host is known well after so many pages, and then learned from these
RECENT_MAX = 128  # pages that are not counted again
REMOVED_RUN_CHARS_MIN = 40  # shorter runs of template lines stay in the content: a closing brace, "Example"
CONTENT_CHARS_MIN = 20  # with less left, the content is all that is neither template nor a list of links
REJUDGED_SHARE = 0.25  # of the content's lines were template: its language and simhash are computed again
LANGUAGES_MAX = 8
LANGUAGE_CHARS_MIN = 200  # of a text whose language is believed, whatever its site
LANGUAGE_PAGES_MIN = 5
SITE_LANGUAGE_SHARE_MIN = 0.6  # of its pages: the site's language, for texts that do not show any
STRANGE_LANGUAGE_SHARE_MAX = 0.1  # a short text is not believed to be in a language so rare on its site
STORED_PAGES_MIN = 4  # a host with fewer is forgotten
UNSTORED_PAGES_MAX = 32  # in a long session


class HostProfileState(msgspec.Struct, array_like=True):
    """A host profile as it is stored."""

    pages: int = 0
    lines: bytes = b""  # hashes of 32 bits
    line_counts: bytes = b""  # how many pages have each line
    titles: int = 0
    affixes: dict[str, int] = {}  # beginnings that end with a separator, and ends that begin with one
    languages: dict[str, int] = {}
    recent: bytes = b""  # hashes of URLs, texts and titles


_decoder = msgspec.msgpack.Decoder(HostProfileState)


class HostProfile:
    """What was learned of one host."""

    def __init__(self, content: bytes = b"") -> None:
        try:
            kept = _decoder.decode(content) if content else HostProfileState()
            lines, recent = _unpacked(kept.lines), _unpacked(kept.recent)
            self._lines = dict(zip(lines, kept.line_counts, strict=True))
        except (msgspec.MsgspecError, ValueError):  # written by another version
            kept, lines, recent, self._lines = HostProfileState(), [], [], {}
        self._pages, self._languages = kept.pages, kept.languages
        self._titles = SiteAffixes(kept.titles, kept.affixes)
        self._recent = dict.fromkeys(recent)
        self._unstored = 0

    def describe(self, page: Page) -> Page:
        """The page as the host's other pages explain it. The page is counted first."""
        if not page.text and not page.title:
            return page
        lines = _lines_to_count(page.text)
        hashes = list(map(xxh32_intdigest, lines))
        is_counted = self._is_counted(page)
        if is_counted:
            self._count_lines(lines, hashes)
            self._count_title(page.title)
        stated = self._titles.headline(page.title, page.headline)
        if self._pages >= LINE_PAGES_MIN:
            page = self._without_template(page, hashes, stated)
        if is_counted:
            self._count_language(page)
        spoken = self._language(page)
        if (stated, spoken) != (page.headline, page.language):
            page = replace(page, headline=stated, language=spoken)
        return page

    # -- learning ----------------------------------------------------------------------------------------------

    def _is_counted(self, page: Page) -> bool:
        """Whether to learn from a page: not if it, or its text, was counted a short while ago."""
        url = xxh32_intdigest(page.url.encode("utf-8", "replace"))
        if self._pages >= KNOWN_PAGES and url % SAMPLED_ONE_IN:
            return False
        keys = (url, int(page.content_id[:8] or "0", 16))
        is_new = not any(key in self._recent for key in keys)
        self._remember(keys)
        return is_new

    def _remember(self, keys: Iterable[int]) -> None:
        for key in keys:
            self._recent.pop(key, None)
            self._recent[key] = None
        while len(self._recent) > RECENT_MAX:
            del self._recent[next(iter(self._recent))]

    def _count_lines(self, lines: list[bytes], hashes: list[int]) -> None:
        if self._pages >= PAGES_MAX:
            self._halve()
        self._pages += 1
        self._unstored += 1
        counts = self._lines
        for key in {key for key, line in zip(hashes, lines, strict=True) if len(line) <= LINE_LENGTH_MAX}:
            counts[key] = counts.get(key, 0) + 1
        keep_most_frequent(counts, 2 * STATE_LINES_MAX, 4 * STATE_LINES_MAX)

    def _count_title(self, title: str) -> None:
        key = xxh32_intdigest(title.encode("utf-8", "replace"))
        if title and key not in self._recent:
            self._remember((key,))
            self._titles.count(title)

    def _count_language(self, page: Page) -> None:
        if page.language_chars >= SAMPLE_CHARS_MIN:
            self._languages[page.language] = self._languages.get(page.language, 0) + 1
            keep_most_frequent(self._languages, LANGUAGES_MAX)

    def _halve(self) -> None:
        self._pages //= 2
        self._lines = halved(self._lines)
        self._titles.halve()
        self._languages = halved(self._languages)

    # -- what it says of a page --------------------------------------------------------------------------------

    def _without_template(self, page: Page, hashes: list[int], stated: str) -> Page:
        """The page with its template lines marked, and taken out of content and lists of links."""
        pages = list(map(self._lines.get, hashes, repeat(0)))  # that have each line
        is_template = self._common_lines(pages, LINE_SHARE_MIN)
        if 1 not in is_template:
            return page
        own, is_common = page.text.split("\n"), self._common_lines(pages, CONTENT_LINE_SHARE_MIN)
        if len(own) > len(hashes):
            for marked in (is_template, is_common):
                marked[len(hashes) // 2 : len(hashes) // 2] = bytes(len(own) - len(hashes))
        starts = list(map(add, accumulate(map(len, own), initial=0), count()))
        is_content, is_listed, is_code = (
            _marked(spans, starts) for spans in (page.content_spans, page.link_list_spans, page.code_spans)
        )
        is_kept = _content_without(is_common, is_content, is_listed, list(map(len, own)))
        is_own = is_kept if 1 in is_kept else _minus(bytearray(b"\1") * len(own), is_listed)  # no content is known
        words = "\n".join(compress(own, _minus(_minus(is_own, is_template), is_code)))
        is_template, before = _minus(is_template, is_kept), is_content.count(1)
        is_listed = _minus(_minus(is_listed, is_template), is_kept)
        page = replace(
            page,
            content_spans=page.content_spans if is_kept == is_content else tuple(spans_of(runs(is_kept), starts)),
            template_spans=tuple(spans_of(runs(is_template), starts)),
            link_list_spans=tuple(spans_of(runs(is_listed), starts)),
        )
        if _minus(is_content, is_kept).count(1) > REJUDGED_SHARE * before:
            prints = fingerprint.page_fingerprints(page.title, page.text, page.content_spans)
            page = replace(page, simhash=prints.simhash)
        elif len(words) >= LANGUAGE_CHARS_MIN or page.language == self._site_language():
            return page
        detection = language.detected(f"{stated or page.title}\n{words}" if len(words) < LANGUAGE_CHARS_MIN else words)
        return replace(page, language=detection.code or page.language, language_chars=detection.chars)

    def _common_lines(self, pages: list[int], share: float) -> bytearray:
        least = max(LINE_PAGES_MIN, ceil(share * self._pages))
        return bytearray(map(least.__le__, pages))

    def _language(self, page: Page) -> str:
        """The language of a page. A text that is short, or shows none, follows its site."""
        if page.language_chars >= LANGUAGE_CHARS_MIN or not (site := self._site_language()):
            return page.language
        share = self._languages.get(page.language, 0) / sum(self._languages.values())
        return site if share <= STRANGE_LANGUAGE_SHARE_MAX or not page.language_chars else page.language

    def _site_language(self) -> str:
        """The language of most pages; empty if there is none yet."""
        total = sum(self._languages.values())
        if total < LANGUAGE_PAGES_MIN:
            return ""
        site = max(self._languages, key=self._languages.__getitem__)
        return site if self._languages[site] >= SITE_LANGUAGE_SHARE_MIN * total else ""

    # -- storage -----------------------------------------------------------------------------------------------

    def is_worth_storing(self, *, is_leaving: bool) -> bool:
        """Whether enough was learned since it was stored; at the end of a session, anything."""
        if self._pages < STORED_PAGES_MIN:
            return False
        return self._unstored >= UNSTORED_PAGES_MAX or (is_leaving and self._unstored > 0)

    def encode(self) -> bytes:
        """The profile to store."""
        self._unstored = 0
        lines = dict(self._lines)
        if self._pages > LINE_PAGES_MIN:
            lines = {key: pages for key, pages in lines.items() if pages > 1}
        keep_most_frequent(lines, STATE_LINES_MAX)
        return msgspec.msgpack.encode(
            HostProfileState(
                self._pages,
                _packed(lines),
                bytes(lines.values()),
                self._titles.titles,
                self._titles.most_frequent(),
                self._languages,
                _packed(self._recent),
            )
        )


def _lines_to_count(text: str) -> list[bytes]:
    """The lines of a text; the first and last ones of very many. A long line has no digits: "Posted by Ana at 10:06 PM"
    is one line of many pages, but "Chapter 6" is not."""
    content = text.encode("utf-8", "replace")
    lines, bare = content.split(b"\n"), content.translate(None, b"0123456789").split(b"\n")
    if len(lines) > LINES_READ_MAX:
        lines = [*lines[: LINES_READ_MAX // 2], *lines[-LINES_READ_MAX // 2 :]]
        bare = [*bare[: LINES_READ_MAX // 2], *bare[-LINES_READ_MAX // 2 :]]
    return [plain if len(plain) >= WITHOUT_DIGITS_MIN else line for line, plain in zip(lines, bare, strict=True)]


def _content_without(
    is_template: bytearray, is_content: bytearray, is_listed: bytearray, lengths: list[int]
) -> bytearray:
    """The lines of the content without long runs of template lines. If hardly any are left, the content is what else is
    neither template nor a list of links: nothing, if the page has only such a list, of its own; if it has nothing of
    its own, the content is as it was."""
    is_kept = bytearray(is_content)
    for first, end in runs(bytearray(map(and_, is_content, is_template))):
        if sum(lengths[first:end]) >= REMOVED_RUN_CHARS_MIN:
            is_kept[first:end] = bytes(end - first)
    if is_kept == is_content or sum(compress(lengths, is_kept)) >= CONTENT_CHARS_MIN:
        return is_kept
    own = _minus(bytearray(b"\1") * len(lengths), is_template)
    return _minus(own, is_listed) if 1 in own else is_content


def _marked(spans: tuple[tuple[int, int], ...], starts: list[int]) -> bytearray:
    """Marks the lines of spans in a text whose lines begin at `starts`."""
    marked = bytearray(len(starts) - 1)
    for start, end in spans:
        first = bisect_left(starts, start)
        after = bisect_left(starts, end, first)
        marked[first:after] = b"\1" * (after - first)
    return marked


def _minus(marked: bytearray, others: bytearray) -> bytearray:
    """The marks of lines that have no mark in `others`."""
    left = int.from_bytes(marked, "little") & ~int.from_bytes(others, "little")
    return bytearray(left.to_bytes(len(marked), "little"))


def _packed(numbers: Iterable[int]) -> bytes:
    return np.array([*numbers], "<u4").tobytes()


def _unpacked(content: bytes) -> list[int]:
    return list(map(int, np.frombuffer(content, "<u4")))
