"""Compares the texts of two captures line by line, and writes a text as Markdown.

Promises: a text of any size is compared in bounded time: lines that occur on one side only, and the beginnings and ends
that are the same, need no alignment; what remains is cut at `LINES_MAX`. Pure.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Literal, NamedTuple

from tarrafa.captures.capture_access import CaptureText

LINES_MAX = 4_000  # of each text that are aligned
MARKDOWN_SIGNS = "\\`*_[]<>"  # the backslash first
_line_signs = re.compile(r"^([#+-])(?=[^\S\n])", re.MULTILINE).sub
_numbered = re.compile(r"^(\d+)([.)])(?=[^\S\n])", re.MULTILINE).sub


class DiffLine(NamedTuple):
    """A line of a comparison: the same in both, only in the older text, or only in the newer one."""

    kind: Literal[" ", "-", "+"]
    text: str


class TextDiff(NamedTuple):
    lines: list[DiffLine]
    removed: int
    added: int
    is_cut: bool  # the texts are longer than what was compared

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.added)


def compare_texts(old: list[str], new: list[str]) -> TextDiff:
    """What has changed from one text to another."""
    is_cut = max(len(old), len(new)) > LINES_MAX
    lines = list(_compared(old[:LINES_MAX], new[:LINES_MAX]))
    kinds = [line.kind for line in lines]
    return TextDiff(lines, kinds.count("-"), kinds.count("+"), is_cut)


def _compared(old: list[str], new: list[str]) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(None, old, new, autojunk=True)
    for _, first, last, start, end in matcher.get_opcodes():
        if old[first:last] == new[start:end]:
            yield from (DiffLine(" ", line) for line in old[first:last])
        else:
            yield from (DiffLine("-", line) for line in old[first:last])
            yield from (DiffLine("+", line) for line in new[start:end])


def with_context(lines: list[DiffLine], context: int) -> Iterator[DiffLine | None]:
    """The changed lines with so many lines around them; None stands for lines that are left out."""
    changed = [place for place, line in enumerate(lines) if line.kind != " "]
    shown = sorted({near for place in changed for near in range(place - context, place + context + 1)})
    shown = [place for place in shown if 0 <= place < len(lines)]
    for last, place in pairwise([-1, *shown]):
        if place > last + 1 and last >= 0:
            yield None
        yield lines[place]


def to_markdown(text: CaptureText) -> str:
    """The text as Markdown: title, headings, paragraphs; signs that would be markup are escaped."""
    lines = [line for line in map(str.strip, text.lines) if line and line != text.title]
    parts = [f"# {_escaped(text.title)}"] if text.title else []
    if lines:  # all at once: a page has hundreds
        escaped = _escaped("\n".join(lines)).split("\n")
        parts += [f"## {one}" if line in text.headings else one for line, one in zip(lines, escaped, strict=True)]
    return "\n\n".join(parts) + "\n"


def _escaped(lines: str) -> str:
    for sign in MARKDOWN_SIGNS:
        lines = lines.replace(sign, f"\\{sign}")
    return _numbered(r"\1\\\2", _line_signs(r"\\\1", lines))
