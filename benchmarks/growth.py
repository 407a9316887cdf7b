"""Does a page cost more when the frontier knows more URLs, or more hosts?

Fills a frontier with pages of a thousand links, then crawls small pages on top, everything on. The figure is
CPU-seconds per 1,000 small pages; what the command costs without pages (its start, its end) is measured by a last
command that crawls a few, and taken off. The pages have no end (templates of the page server), so the frontier keeps
growing. robots.txt is ignored here: with many hosts and few pages of each, it would be one more request a page.

    python -m benchmarks.crawl --growth [--pages 12000] [--json FILE]

crawls a quarter of --pages for each point, and draws docs/performance/. Run it on a machine that does nothing else.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.answer_file import Answer, write_answers
from benchmarks.crawl_workloads import DOMAIN, SENTENCES
from benchmarks.page_server import free_port, start_server
from benchmarks.process_usage import run_measured
from tarrafa.simulate.matplotlib_plots import COLOURS, MARKERS, figure_axes

KNOWN_URLS, HOSTS_BESIDE = (10_000, 100_000, 1_000_000), 1_000
HOSTS, KNOWN_BESIDE = (10, 1_000, 20_000), 100_000
FLAT_WITHIN = 1.2  # the dearest point against the cheapest
FILL_LINKS = 1_000  # of a page that fills the frontier
TEMPLATES, TEMPLATE_LINKS, TEMPLATE_SENTENCES = 500, 10, 20
START_PAGES = 10  # of the command that measures the start
PAGES_SHARE = 1 / 4
RUN_S_MAX = 3_600.0
COMMAND = [sys.executable, "-c", "from tarrafa.cli import main; main()"]
DOCS = Path(__file__).parents[1] / "docs" / "performance"
SHOWN_ROLES = ("workers", "index", "graph", "frontier", "triples")
COLLECTION = """
name = "growth"
roots_file = "roots.txt"
[scope]
hosts = ["*.{domain}"]
pages_max = {pages_max}
[politeness]
delay = 0
delay_factor = 0
robots = "ignore"
[network]
connect_to = {{"*.{domain}" = "127.0.0.1:{port}"}}
suffixes = ["{domain}"]
"""


class GrowthPoint(msgspec.Struct):
    """The cost of pages at one size of the frontier. CPU-seconds per 1,000 pages."""

    known: int  # in the middle of the crawl
    hosts: int
    pages: int
    cpu: float
    cpu_by_role: dict[str, float]


class GrowthFigures(msgspec.Struct):
    """What --json writes."""

    by_known: list[GrowthPoint]
    by_hosts: list[GrowthPoint]


def measure_growth(pages: int, workers: int, json_file: Path | None) -> None:
    """Measure all points, print and draw them."""
    measured, each = dict[tuple[int, int], GrowthPoint](), max(1, round(pages * PAGES_SHARE))
    wanted = [*((known, HOSTS_BESIDE) for known in KNOWN_URLS), *((KNOWN_BESIDE, hosts) for hosts in HOSTS)]
    for number, (known, hosts) in enumerate(dict.fromkeys(wanted), 1):
        print(f"point {number} of {len(set(wanted))}: {known:,} URLs on {hosts:,} hosts", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="tarrafa-growth-") as folder:
            measured[known, hosts] = point = measure_point(known, hosts, each, workers, Path(folder))
        roles = ", ".join(f"{role} {cpu:.2f}" for role, cpu in point.cpu_by_role.items())
        print(
            f"{point.known:,} URLs known, {hosts:,} hosts: {point.cpu:.2f} CPU-s per 1,000 pages ({roles})", flush=True
        )
    figures = GrowthFigures(
        [measured[known, HOSTS_BESIDE] for known in KNOWN_URLS], [measured[KNOWN_BESIDE, hosts] for hosts in HOSTS]
    )
    for name, points in (("known URLs", figures.by_known), ("hosts", figures.by_hosts)):
        ratio = max(one.cpu for one in points) / min(one.cpu for one in points)
        verdict = "" if ratio <= FLAT_WITHIN else "  NOT FLAT"
        print(f"dearest against cheapest by {name}: {ratio:.2f} (at most {FLAT_WITHIN}){verdict}")
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(figures)) + b"\n")
    draw(DOCS / "growth-known-urls", "Cost of a page by known URLs", "known URLs", figures.by_known, "known")
    draw(DOCS / "growth-hosts", "Cost of a page by hosts", "hosts", figures.by_hosts, "hosts")


def measure_point(known: int, hosts: int, pages: int, workers: int, folder: Path) -> GrowthPoint:
    port, fills = free_port(), known // FILL_LINKS
    write_answers(folder / "answers", _fill_pages(fills, hosts, port), _templates(hosts, port))
    (folder / "roots.txt").write_text(
        "\n".join(_url(_fill_host(one, hosts), f"fill{one}", port) for one in range(fills))
    )
    file, data = folder / "growth.toml", folder / "data"
    command = [*COMMAND, "crawl", str(file), "--data", str(data), "--workers", str(workers)]
    used, counts = [], [0]
    with start_server(folder / "answers", port, folder) as server:
        for pages_max in (fills, fills + pages, fills + pages + START_PAGES):
            file.write_text(COLLECTION.format(domain=DOMAIN, port=port, pages_max=pages_max))
            used.append(run_measured(command, dict(os.environ), lambda: None, RUN_S_MAX))
            counts.append(server.stats().pages)
            if len(used) == 2:
                known_after = _known(data)
            if used[-1].status:
                raise SystemExit(f"the crawl up to {pages_max:,} pages ended with status {used[-1].status}")
    made = counts[2] - counts[1] - (counts[3] - counts[2])
    _, whole, start = (one.cpu_by_role() for one in used)
    by_role = {role: 1000 * (cpu_s - start.get(role, 0.0)) / made for role, cpu_s in whole.items()}
    return GrowthPoint(
        known_after - TEMPLATE_LINKS * pages // 2, hosts, made, 1000 * (used[1].cpu_s - used[2].cpu_s) / made, by_role
    )


def _known(data: Path) -> int:
    said = subprocess.run([*COMMAND, "status", "--json", "--data", str(data)], capture_output=True, check=True)
    return int(json.loads(said.stdout)["collections"][0]["known"])


def _url(host: int, path: str, port: int) -> str:
    return f"http://h{host}.{DOMAIN}:{port}/{path}.html"


def _fill_host(number: int, hosts: int) -> int:
    return number * 7919 % hosts


def _fill_pages(fills: int, hosts: int, port: int) -> Iterator[Answer]:
    for number in range(fills):
        chance = random.Random(number)
        links = [
            f'<a href="{_url(chance.randrange(hosts), f"s{number}x{link}", port)}">{chance.choice(SENTENCES)[:20]}</a>'
            for link in range(FILL_LINKS)
        ]
        body = f'<html lang="pt"><title>{number}</title><p>{"</p><p>".join(links)}</p></html>'.encode()
        yield Answer(f"h{_fill_host(number, hosts)}.{DOMAIN}", f"/fill{number}.html", body)


def _templates(hosts: int, port: int) -> Iterator[bytes]:
    for number in range(TEMPLATES):
        chance = random.Random(-number)
        links = (
            f'<a href="{_url(chance.randrange(hosts), "@@@@@@@@", port)}">{chance.choice(SENTENCES)[:20]}</a>'
            for _ in range(TEMPLATE_LINKS)
        )
        text = "".join(f"<p>{chance.choice(SENTENCES)}.</p>" for _ in range(TEMPLATE_SENTENCES))
        yield f'<html lang="pt"><title>@@@@@@@@</title><p>@@@@@@@@ {" ".join(links)}</p>{text}</html>'.encode()


def draw(stem: Path, title: str, x_label: str, points: list[GrowthPoint], axis: str) -> None:
    """Curves of the whole and of each process, against a logarithmic axis."""
    stem.parent.mkdir(exist_ok=True)
    x = [getattr(point, axis) for point in points]
    with figure_axes(stem, title, x_label, "CPU-s per 1,000 pages") as axes:
        curves = {"all": [point.cpu for point in points]}
        curves |= {role: [point.cpu_by_role.get(role, 0.0) for point in points] for role in SHOWN_ROLES}
        for number, (label, y) in enumerate(curves.items()):
            axes.plot(x, y, color=COLOURS[number], marker=MARKERS[number], label=label)
        axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.legend()
