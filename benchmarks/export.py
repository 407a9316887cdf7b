"""How many pages a second does each export write, with how much memory? py-wacz makes the same WACZ, as a peer.

    python -m benchmarks.export [--pages N] [--rounds N]

The pages are those of `benchmarks/archive.py`: real text of some 27 KB with 45 links, 500 different ones under N URLs.
Each export is a process of its own, `tarrafa export ...`; the time that the program takes to start is subtracted.
py-wacz indexes and packs the WARC file that `tarrafa export warc` has written, and takes turns with `tarrafa export
wacz`. What counts is processor time; the ratio is the median of those of all rounds.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec
from _pytest.outcomes import Skipped
from tests.captures.archive_tools import environment

from benchmarks.archive import AT, Visit, real_text, visit
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.captures import follower
from tarrafa.runtime.data_dir import DataDirectory

DIFFERENT_PAGES = 500
PROGRAM = """
import re, sys
from pathlib import Path
from tarrafa.cli import main
try:
    main()
finally:  # of this program alone; what the system says of a child counts its parent's memory, too
    sys.stderr.write(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[0])
"""
EXPORTS = {
    "warc": ("warc", "all.warc.gz"),
    "wacz": ("wacz", "all.wacz"),
    "pages, text": ("pages", "text.jsonl"),
    "pages, Markdown": ("pages", "markdown.jsonl", "--format", "markdown"),
    "pages, |||url|html": ("pages", "pages.html", "--format", "html"),
    "parquet": ("parquet", "tables"),
    "parquet, nothing new": ("parquet", "tables"),
}


def write_archive(data: DataDirectory, pages: int) -> None:
    """Visits of the same pages under many URLs."""
    different = [visit(number, text) for number, text in enumerate(real_text(DIFFERENT_PAGES))]
    writer = WarcWriter(data.archive, "w1", AT)
    for number in range(pages):
        record, exchange = renamed(different[number % DIFFERENT_PAGES], number)
        writer.append(record, exchange)
    writer.close()
    follower.catch_up(data)


def renamed(one: Visit, number: int) -> Visit:
    record, exchange = one
    url, at = f"http://www.s{number // 50}.example/artigos/{number}/pagina.html", AT + number
    assert record.page is not None
    changed = {"url": url, "outcome": msgspec.structs.replace(record.outcome, at=at)}
    page = msgspec.structs.replace(record.page, url=url)
    return msgspec.structs.replace(record, page=page, **changed), msgspec.structs.replace(exchange, url=url, at=at)


def measured(command: list[str]) -> tuple[float, int]:
    """Processor time and memory of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: {told}")
    memory = re.search(r"VmHWM:\s+(\d+) kB", told)
    return used.ru_utime + used.ru_stime, int(memory[1]) >> 10 if memory else 0


def export_command(data: DataDirectory, folder: Path, name: str) -> list[str]:
    kind, target, *options = EXPORTS[name]
    force = [] if kind == "parquet" else ["--force"]
    command = [sys.executable, "-c", PROGRAM, "export", kind, str(folder / target), "--data", str(data.root)]
    return [*command, *force, *options]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        folder, data = Path(root), DataDirectory(Path(root) / "data")
        data.create()
        write_archive(data, options.pages)
        start_s, _ = measured([sys.executable, "-c", PROGRAM, "export", "--help"])
        print(f"{options.pages:,} pages; the start of the program takes {start_s:.2f} s of processor time\n")
        print(f"{'':24}{'pages/s':>10}{'us a page':>11}{'MB of memory':>14}")
        for name in EXPORTS:
            spent_s, memory_mb = measured(export_command(data, folder, name))
            work_s = max(spent_s - start_s, 1e-3)
            print(f"{name:24}{options.pages / work_s:>10,.0f}{work_s / options.pages * 1e6:>11.0f}{memory_mb:>14}")
        compare_with_py_wacz(data, folder, options.rounds)


def compare_with_py_wacz(data: DataDirectory, folder: Path, rounds: int) -> None:
    try:
        wacz = environment("wacz-tools-1") / "wacz"
    except Skipped as reason:
        print(f"py-wacz: {reason}")
        return
    peer = [str(wacz), "create", "-o", str(folder / "peer.wacz"), "--detect-pages", str(folder / "all.warc.gz")]
    ratios = []
    for _ in range(rounds):
        ours_s, _ = measured(export_command(data, folder, "wacz"))
        theirs_s, _ = measured(peer)
        ratios.append(ours_s / theirs_s)
    print(f"\nwacz beside py-wacz: {statistics.median(ratios):.3f} of its processor time, median of {rounds}")


if __name__ == "__main__":
    main()
