"""How well, and at which cost, is the main content of a page found?

    python benchmarks/main_content.py

91 pages with their articles, marked by hand (conformance data, see tests/conformance_data.py). Texts are compared as
multisets of runs of four words; precision and recall are averaged over the pages, F1 is made of the two averages. The
held-out half is the pages whose name begins with an odd digit: no rule of ours was made by looking at them.
Cost is processor time beyond the program's own parse, the least of three turns, median and mean of the pages; for
Tarrafa (its kernels are compiled first), beyond parse and text, which every page needs in any case. readability makes
markup: its text is made of that.
Beside it: turbohtml's own `main_text`, and trafilatura, readability-lxml and resiliparse, where they can be imported (a
folder with them may be added to PYTHONPATH).
"""

import gzip
import json
import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import turbohtml

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance_data import CONFORMANCE_DIR
from tests.parse.test_main_content import content_scores, f1

from tarrafa.parse.main_content import divide, lay_out
from tarrafa.parse.text_kernels import kernels, normalize_lines

SET_DIR = CONFORMANCE_DIR / "content"
TURNS = 3
TEXTLESS_ELEMENTS = "template, noscript, iframe, svg, select, textarea, datalist"
LAYOUT = turbohtml.PlainText(layout="strict", bullet="", table_cell_separator=" ")


class Extractor(NamedTuple):
    """How one program finds the content of a page. `prepare` is its parse; `uncounted` is work within `content` that is
    not counted as its cost.
    """

    name: str
    prepare: Callable[[str], Any]
    content: Callable[[Any], str]
    uncounted: Callable[[Any], object] = bool


def main() -> None:
    if not SET_DIR.exists():
        sys.exit(f"{SET_DIR}: the conformance data is absent; set TARRAFA_CONFORMANCE to where it is")
    logging.disable()
    kernels.require()
    truth = json.loads((SET_DIR / "ground-truth.json").read_text(encoding="utf-8"))
    bodies = {key: gzip.decompress((SET_DIR / "html" / f"{key}.html.gz").read_bytes()) for key in truth}
    pages = {key: body.decode("utf-8", "replace") for key, body in bodies.items()}
    wanted = {key: one["articleBody"] for key, one in truth.items()}
    print(f"{'':18} {'F1':>6} {'held out':>9} {'precision':>10} {'recall':>7} {'ms median':>10} {'mean':>6}")
    for extractor in _extractors():
        found, costs_s = {}, []
        for key, markup in pages.items():
            found[key] = extractor.content(extractor.prepare(markup))
            costs = (_least_s(one, extractor.prepare, markup) for one in (extractor.content, extractor.uncounted))
            costs_s.append(next(costs) - next(costs))
        scores = content_scores(found, wanted)
        held_out = {key: score for key, score in scores.items() if int(key[0], 16) % 2}
        precision, recall = (statistics.mean(column) for column in zip(*scores.values(), strict=True))
        print(
            f"{extractor.name:18} {f1(scores):6.3f} {f1(held_out):9.3f} {precision:10.3f} {recall:7.3f}"
            f" {1000 * statistics.median(costs_s):10.2f} {1000 * statistics.mean(costs_s):6.2f}",
            flush=True,
        )


def _extractors() -> Iterator[Extractor]:
    yield Extractor("Tarrafa", _parsed, _tarrafa, _text)
    yield Extractor("turbohtml", _parsed, lambda document: str(document.main_text()))
    peers = {"trafilatura": _trafilatura, "readability": _readability, "resiliparse": _resiliparse}
    for name, peer in peers.items():
        if find_spec(name):
            yield peer()
        else:
            print(f"{name:18} skipped: not installed")


def _parsed(markup: str) -> turbohtml.Document:
    document = turbohtml.parse(markup, positions=False)
    document.remove(TEXTLESS_ELEMENTS)
    return document


def _text(document: turbohtml.Document) -> str:
    return normalize_lines(document.to_text(LAYOUT))[0]


def _tarrafa(document: turbohtml.Document) -> str:
    laid_out = lay_out(document, "")
    text, _ = normalize_lines(laid_out.text)
    return "\n".join(text[start:end] for start, end in divide(laid_out, text).content_spans)


def _trafilatura() -> Extractor:
    import trafilatura

    def content(tree: Any) -> str:
        return trafilatura.extract(tree, include_comments=False) or ""

    return Extractor("trafilatura", trafilatura.load_html, content, len)


def _readability() -> Extractor:
    import lxml.html
    import readability

    def content(markup: str) -> str:
        return str(lxml.html.fromstring(readability.Document(markup).summary(html_partial=True)).text_content())

    return Extractor("readability-lxml", str, content, lxml.html.fromstring)


def _resiliparse() -> Extractor:
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    def content(tree: Any) -> str:
        return str(extract_plain_text(tree, main_content=True, alt_texts=False))

    return Extractor("resiliparse", HTMLTree.parse, content)


def _least_s(function: Callable[[Any], object], prepare: Callable[[str], Any], markup: str) -> float:
    least = float("inf")
    for _ in range(TURNS):
        prepared = prepare(markup)
        began = time.process_time()
        function(prepared)
        least = min(least, time.process_time() - began)
    return least


if __name__ == "__main__":
    main()
