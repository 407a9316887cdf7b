"""How many pages a second of the processor does our RDFa read, beside pyRdfa3 (`make peers`), from the same bytes?

Three kinds of pages of about 27 KB: rich (280 statements), Open Graph only, and without RDFa. Both parse the page
themselves. What counts is processor time, and the two take turns, so that a busy machine changes little. The statements
are compared: a fast answer that is another answer would be none.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyoxigraph
from tests.rdfa_suite import HTML, extract

from benchmarks.rdfa_peers import pyrdfa

URL = "http://shop.example/catalogue/page.html"
SECONDS = 2.0  # of each, for each kind of page
TURN_S = 0.25
LEAST = 12  # times as many as pyRdfa3
WORDS = ("rede", "mar", "peixe", "barco", "porto", "vela", "onda", "farol", "areia", "maré", "linha", "cais", "vento")


Reader = Callable[[bytes, str, str], str]


def prose(seed: int, words: int) -> str:
    """The same words for the same number."""
    return " ".join(WORDS[(seed * 31 + word * word * 7 + word) % len(WORDS)] for word in range(words))


def page(head: str, parts: list[str], root: str = "") -> bytes:
    filling: list[str] = []
    missing = 27_000 - len(head) - sum(map(len, parts))
    while missing > 0:
        number = len(filling)
        filling.append(
            f'<div class="teaser"><h3>{prose(number, 4)}</h3><p class="text">{prose(number, 22)} '
            f'<a href="/item/{number}" rel="nofollow">{prose(number, 2)}</a> <img src="/i/{number}.jpg" alt="">'
            "</p></div>\n"
        )
        missing -= len(filling[-1])
    body = "\n".join(parts) + "".join(filling)
    return (
        f'<!DOCTYPE html><html lang="pt"{root}><head><meta charset="utf-8"><title>{prose(1, 5)}</title>\n{head}</head>'
        f"<body>{body}</body></html>"
    ).encode()


def rich() -> bytes:
    """Thirty-five products, each with a name, a text, a picture and an offer of its own."""
    parts = [
        f'<div class="item" typeof="Product" resource="#p{number}"><h2 property="name">{prose(number, 3)}</h2>'
        f'<img property="image" src="/i/{number}.jpg" alt=""><p property="description">{prose(number, 14)}</p>'
        f'<div property="offers" typeof="Offer">R$ <span property="price" content="{number}.90">{number},90</span>'
        f'<meta property="priceCurrency" content="BRL"></div></div>'
        for number in range(35)
    ]
    return page("", ['<main vocab="http://schema.org/">', *parts, "</main>"])


def open_graph() -> bytes:
    names = ("title", "type", "url", "image", "description", "site_name", "locale", "image:width", "image:height")
    head = "\n".join(f'<meta property="og:{name}" content="{prose(len(name), 6)}">' for name in names)
    return page(head, [], ' prefix="og: http://ogp.me/ns#"')


def plain() -> bytes:
    return page('<link rel="stylesheet" href="/a.css">\n<meta name="description" content="x">', [])


def pages_per_second(readers: list[Reader], body: bytes) -> list[float]:
    """How many pages each reads, taking turns."""
    spent, pages = [0.0] * len(readers), [0] * len(readers)
    while min(spent) < SECONDS:
        for which, read in enumerate(readers):
            start = time.process_time()
            while (since := time.process_time() - start) < TURN_S:
                read(body, URL, HTML)
                pages[which] += 1
            spent[which] += since
    return [count / seconds for count, seconds in zip(pages, spent, strict=True)]


def graph(text: str) -> set[str]:
    dataset = pyoxigraph.Dataset(pyoxigraph.parse(text.encode(), format=pyoxigraph.RdfFormat.N_QUADS))
    dataset.canonicalize(pyoxigraph.CanonicalizationAlgorithm.UNSTABLE)
    return set(map(str, dataset))


def main() -> None:
    good = True
    print(f"{'page':12} {'bytes':>7} {'statements':>10} {'pages/CPU-s':>12} {'pyRdfa3':>9} {'ratio':>7}")
    for name, body in (("rich", rich()), ("Open Graph", open_graph()), ("no RDFa", plain())):
        found = extract(body, URL, HTML)
        line = f"{name:12} {len(body):7} {len(graph(found)):10}"
        try:
            same = graph(found) == graph(pyrdfa(body, URL, HTML))
        except ImportError:
            (ours,) = pages_per_second([extract], body)
            print(f"{line} {ours:12.0f}   absent: make peers")
            continue
        ours, theirs = pages_per_second([extract, pyrdfa], body)
        print(f"{line} {ours:12.0f} {theirs:9.1f} {ours / theirs:6.1f}x{'' if same else '  OTHER STATEMENTS'}")
        good &= same and ours >= LEAST * theirs
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
