"""A compaction, or another change of the archive, that kills itself with SIGKILL at its N-th call of a function:
`python -m ... DATA N [erase|parse]`. 0: never; it prints how many calls there are before the journal is committed, and
in all."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from tarrafa.crawl.compaction.compaction import compact
from tarrafa.crawl.compaction.journal import Journal
from tarrafa.crawl.compaction.reparse import reparse
from tarrafa.runtime.data_dir import DataDirectory

FAR_FUTURE = 4e9


def main(root: str, kill_at: int, what: str = "") -> None:
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    commits, commit = list[int](), Journal.commit

    def noted_commit(journal: Journal) -> None:
        commits.append(calls)
        commit(journal)

    Journal.commit = noted_commit  # type: ignore[method-assign, assignment]
    sys.setprofile(count)
    data = DataDirectory(Path(root))
    if what == "parse":
        reparse(data)
    else:
        compact(data, now=FAR_FUTURE if what == "erase" else 0.0)
    sys.setprofile(None)
    sys.stdout.write(f"{commits[0]} {calls}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
