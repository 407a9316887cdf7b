"""Normalizes the lines and spaces of a text, and hands texts to the compiled kernels.

Promises: the compiled way and the Python way give the same text.
Knows nothing of HTML.
"""

import re
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tarrafa.parse.text_kernels import KERNELS
from tarrafa.runtime.compiled_kernels import CompiledKernels

TEXT_LENGTH_MAX = 500_000

_spaces = re.compile(r"[^\S\n]+")

kernels = CompiledKernels("tarrafa.parse.text_kernels", KERNELS)


class CodePoints(NamedTuple):
    """The characters of a text as numbers of 8, 16 or 32 bits."""

    content: bytes
    bits: int


_CODECS = {8: "latin-1", 16: "utf-16-le", 32: "utf-32-le"}


def code_points(text: str) -> CodePoints | None:
    """The code points of a text; None if it has surrogates, which no codec takes.

    Python holds a text with as many bits as its widest character needs, and encodes it with as many by copying memory;
    the size of the object only says what to try first.
    """
    length, size = len(text), sys.getsizeof(text)
    try:
        if size < 2 * length:
            return CodePoints(text.encode("latin-1"), 8)
    except UnicodeEncodeError:
        pass
    try:
        if size < 4 * length and len(content := text.encode("utf-16-le")) == 2 * length:
            return CodePoints(content, 16)
        return CodePoints(text.encode("utf-32-le"), 32)
    except UnicodeEncodeError:
        return None


def code_point_array(points: CodePoints) -> npt.NDArray[Any]:
    return np.frombuffer(points.content, f"<u{points.bits // 8}")


def normalize_lines(text: str) -> tuple[str, bool]:
    """One line for each block, no empty lines, one space between words; and whether more is left out."""
    compiled = kernels.get()
    points = code_points(text[: 2 * TEXT_LENGTH_MAX]) if compiled else None
    if compiled is None or points is None:
        return _normalize_lines(text)
    tidied = np.empty(len(points.content) or 1, np.uint8)
    length = len(points.content) * 8 // points.bits
    kept = compiled[f"tidy_{points.bits}"](points.content, length, tidied.ctypes.data, TEXT_LENGTH_MAX)
    is_cut = kept < 0 or len(text) > 2 * TEXT_LENGTH_MAX
    kept = ~kept if kept < 0 else kept
    return str(tidied.data[: kept * points.bits // 8], _CODECS[points.bits]), is_cut


def _normalize_lines(text: str) -> tuple[str, bool]:
    """The definition, and the Python way."""
    is_cut = len(text) > 2 * TEXT_LENGTH_MAX
    text = text[: 2 * TEXT_LENGTH_MAX].replace("\xa0", " ")
    text = "\n".join(filter(None, map(str.strip, text.split("\n"))))
    if "  " in text or "\t" in text:
        text = _spaces.sub(" ", text)
    return text[:TEXT_LENGTH_MAX].rstrip(), is_cut or len(text) > TEXT_LENGTH_MAX
