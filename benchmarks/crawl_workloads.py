"""The workloads of the crawl benchmark: which pages are served, on how many hosts, under which settings.

Promises: the same workload of the same size has the same pages, whatever the port. From its root every page is
reachable, and nothing else is linked: each crawler makes the same requests.
Knows nothing of who crawls.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.answer_file import Answer, write_answers
from benchmarks.corpus import corpus_pages, relinked
from benchmarks.debian_packages import NotAvailable

DOMAIN = "bench.test"
CHILDREN = 4  # of a page in the tree that makes all pages reachable
LINKS_MIN, LINKS_MORE = 40, 11  # 40 to 50 links a page
POOR_WORDS, LARGE_BYTES = 3_000, 242_000
CORPUS_PAGES_MIN = 1_000

# A text of few words, as benchmarks of crawlers have it: every word and every pair of words is soon known.
SENTENCES = """
A rede de arrasto recolhe o que encontra no fundo do mar
Os pescadores voltam ao porto antes da tempestade de inverno
Uma biblioteca guarda livros antigos e mapas de terras distantes
O governo publica novas regras para o transporte das cidades
The committee will publish its annual report before the end of March
Every harbour keeps a register of the boats that leave in the morning
A universidade abre as portas para estudantes de todas as idades
O preço do peixe subiu com a falta de chuva no litoral
Engineers measured the depth of the river at seven different places
Museus e teatros oferecem entrada livre no primeiro domingo do mês
The old railway was rebuilt by volunteers during a long dry summer
A cooperativa vende queijo, mel e café da serra na feira da praça
Readers are asked to return borrowed books within twenty one days
O rio atravessa a cidade e divide o centro histórico do bairro novo
Historians compared both letters and found the same careful handwriting
As crianças aprendem a nadar cedo nas praias calmas do norte
""".strip().splitlines()


@dataclass(frozen=True, slots=True)
class Workload:
    """What is crawled."""

    name: str
    hosts: int
    share: float = 1.0  # of the pages that the benchmark is asked for
    tls: bool = False
    one_at_a_time: bool = False  # one request at a time, for all
    politeness: str = "delay_factor = 0"
    page_bytes: int = 0  # 0: 3,000 words


WORKLOADS = {
    one.name: one
    for one in (
        Workload("poor", 2_000),
        Workload("real", 2_000),
        Workload("tls", 200, tls=True),
        Workload("large", 200, share=1 / 12, page_bytes=LARGE_BYTES),
        Workload("one-host", 1, share=1 / 2, one_at_a_time=True),
    )
}


@dataclass(frozen=True, slots=True)
class BuiltWorkload:
    """A workload as it is served."""

    workload: Workload
    answers: Path
    port: int
    pages: int
    mean_bytes: float
    notes: list[str] = field(default_factory=list)

    @property
    def root(self) -> str:
        return Site(self.workload, self.port, self.pages).url(0)


class Site:
    """Where each page is."""

    def __init__(self, workload: Workload, port: int, pages: int) -> None:
        self._scheme, self._port, self._pages = "https" if workload.tls else "http", port, pages
        self._hosts = workload.hosts

    def host(self, number: int) -> str:
        return f"h{number % self._hosts}.{DOMAIN}"

    def path(self, number: int) -> str:
        return f"/p{number}.html" if number else "/"

    def url(self, number: int) -> str:
        return f"{self._scheme}://{self.host(number)}:{self._port}{self.path(number)}"

    def children(self, number: int) -> list[int]:
        first = number * CHILDREN + 1
        return list(range(first, min(first + CHILDREN, self._pages)))


def build_workload(workload: Workload, pages: int, port: int, folder: Path) -> BuiltWorkload:
    """Write the answers of a workload into the folder."""
    pages, notes, real = max(1, round(pages * workload.share)), list[str](), list[bytes]()
    if workload.name == "real":
        real, notes = corpus_pages(pages)
        if len(real) < min(pages, CORPUS_PAGES_MIN):
            raise NotAvailable("; ".join(notes) or f"only {len(real)} pages of real text were found")
        pages = len(real)
    site, sizes = Site(workload, port, pages), list[int]()

    def answers() -> Iterator[Answer]:
        for number in range(pages):
            if real:
                body = relinked(real[number], number, pages, site.url, site.children(number))
            else:
                body = generated_page(site, number, pages, workload.page_bytes)
            sizes.append(len(body))
            yield Answer(site.host(number), site.path(number), body)

    path = folder / f"{workload.name}.answers"
    write_answers(path, answers())
    return BuiltWorkload(workload, path, port, pages, sum(sizes) / pages, notes)


def generated_page(site: Site, number: int, pages: int, page_bytes: int) -> bytes:
    """A page of few different words: 3,000 of them, or as many as fill it, with 40 to 50 links."""
    chance = random.Random(number)
    targets = site.children(number)
    targets += (chance.randrange(pages) for _ in range(LINKS_MIN + number % LINKS_MORE - len(targets)))
    title = " ".join(chance.choice(SENTENCES).split()[:4])
    paragraphs, words, size = [], 0, 0
    while size < page_bytes if page_bytes else words < POOR_WORDS:
        target = targets.pop() if targets else None
        text = " ".join(f'<span class="s">{chance.choice(SENTENCES)}.</span>' for _ in range(5))
        if target is not None:
            text += f' <a href="{site.url(target)}">{" ".join(chance.choice(SENTENCES).split()[:3])}</a>'
        paragraphs.append(f"<p>{text}</p>\n")
        words, size = words + text.count(" ") - 4, size + len(paragraphs[-1].encode())
    rest = "".join(f'<li><a href="{site.url(target)}">{chance.choice(SENTENCES)[:20]}</a></li>' for target in targets)
    return (
        f'<!DOCTYPE html>\n<html lang="pt"><head><meta charset="utf-8"><title>{title} {number}</title>\n'
        f'<meta property="og:title" content="{title}"></head>\n<body><h1>{title} {number}</h1>\n'
        f"{''.join(paragraphs)}<ul>{rest}</ul></body></html>\n"
    ).encode()
