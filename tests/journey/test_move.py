"""A frontier moves to another machine beside its archive, by the commands that docs/backup.md shows."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import TYPES, a_journey, assert_exact, assert_polite, tarrafa, wait_until_kept

GUIDE = Path(__file__).parents[2] / "docs" / "backup.md"
TARRAFA = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from tarrafa.cli import main; main()" "$@"\n'
# Stands in for ssh: the other machine is a folder.
RSYNC = """#!/bin/sh
set -e
[ "$1" = -a ] && shift
for last; do :; done
place="$THERE/${last#there:}"
mkdir -p "$place"
while [ $# -gt 1 ]; do cp -a "$1" "$place"; shift; done
"""


def commands(section: str) -> list[tuple[str, str]]:
    """Where each command of a section is typed, and the command."""
    text = GUIDE.read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"^(here|there)\$ +([^#\n]+?) *(?:#.*)?$", text, re.MULTILINE)


def lines(root: Path) -> list[dict[str, Any]]:
    """Every URL of a frontier that is in one file."""
    said = tarrafa("export", "frontier", "-", "--format", "jsonl", "--data", root)
    assert said.returncode == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_the_documented_move_takes_frontier_and_archive_along_and_the_crawl_goes_on(tmp_path):
    world = World(seed=11, hosts=6, pages=60)
    journey = a_journey(tmp_path, world)
    folders = here, there, programs = tmp_path / "here", tmp_path / "there", tmp_path / "bin"
    for folder in (*folders, here / "tarrafa-data"):
        folder.mkdir()
    for folder in (here, there):
        (folder / "data").symlink_to("tarrafa-data")  # where a journey looks
    for name, text in (("tarrafa", TARRAFA), ("rsync", RSYNC)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    surroundings = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "THERE": str(there)}
    truth = expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True)
    with journey.web:
        at_home, moved = replace(journey, folder=here), replace(journey, folder=there)
        file = at_home.write_collection().rename(here / "collection.toml")
        crawl = at_home.start(file)
        wait_until_kept(at_home, crawl, len(truth.kept) // 2)
        os.killpg(crawl.pid, signal.SIGINT)
        crawl.communicate(timeout=60)
        taken = tarrafa("takedown", "add", f"{world.root(1)}nowhere", "--data", at_home.data.root)
        assert taken.returncode == 0, taken.stderr
        before, typed = lines(at_home.data.root), commands("Move")
        assert [words.split()[1] for _, words in typed if words.startswith("tarrafa")] == ["export", "import", "crawl"]
        for where, command in typed:
            if command.startswith("tarrafa crawl"):
                assert lines(moved.data.root) == before, "every URL, and every visit that is remembered"
            said = subprocess.run(
                command, shell=True, cwd=tmp_path / where, env=surroundings, capture_output=True, text=True
            )
            assert said.returncode == 0, f"{command}: {said.stderr}"
        assert_exact(moved, truth)
        assert_polite(moved)
        assert "nowhere" in tarrafa("takedown", "list", "--data", moved.data.root).stdout
