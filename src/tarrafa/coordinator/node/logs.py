"""The logs of a node: reads new lines of its processes and truncates long files.

Promises: every whole line is returned once, shortened and without control characters; of too many lines, the newest. A
long log is truncated and its end kept as NAME.log.1, so that logs never fill the disk. (A line written in the moment of
truncation is lost.)
"""

import os
from pathlib import Path

from tarrafa.coordinator.node.messages import LINE_CHARS_MAX, LINES_PER_HEARTBEAT_MAX, LogLine
from tarrafa.runtime.data_dir import write_atomically
from tarrafa.runtime.heartbeat import NAME_CHARS_MAX, printable_text

LOG_BYTES_MAX, LOG_BYTES_KEPT = 8 << 20, 1 << 20
READ_BYTES_MAX = 64 << 10  # of one log at a time; of more, the end
FILES_MAX = 500


class LogReader:
    """The logs of a folder, from their current end on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[int, int]] = {path.name: _file_position(path) for path in self._paths()}

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob("*.log"))[:FILES_MAX]

    def new_lines(self, at: float) -> list[LogLine]:
        """Lines since the last call."""
        lines: list[LogLine] = []
        for path in self._paths():
            process = printable_text(path.name.removesuffix(".log"), NAME_CHARS_MAX)
            try:
                lines += [LogLine(at, process, text) for text in self._new_lines_of(path)]
                if path.stat().st_size > LOG_BYTES_MAX:
                    self._truncate(path)
            except OSError:  # it is gone, or the disk is full: try again at the next call
                continue
        return lines[-LINES_PER_HEARTBEAT_MAX:]

    def _new_lines_of(self, path: Path) -> list[str]:
        file, end = _file_position(path)
        before, start = self._read.get(path.name, (file, 0))
        if before != file or end < start:  # replaced or truncated
            start = 0
        if end == start:
            return []
        start = max(start, end - READ_BYTES_MAX)
        with path.open("rb") as log:
            log.seek(start)
            content = log.read(end - start)
        whole = content.rfind(b"\n") + 1
        if not whole and len(content) < READ_BYTES_MAX:  # the line is incomplete
            self._read[path.name] = (file, start)
            return []
        self._read[path.name] = (file, start + (whole or len(content)))
        texts = content[: whole or len(content)].decode(errors="replace").splitlines()[-LINES_PER_HEARTBEAT_MAX:]
        return [text for text in (printable_text(one, LINE_CHARS_MAX).rstrip() for one in texts) if text]

    def _truncate(self, path: Path) -> None:
        """The writer has the file open for appending, and continues at its new end."""
        with path.open("rb") as log:
            log.seek(-LOG_BYTES_KEPT, os.SEEK_END)
            kept = log.read()
        write_atomically(path.with_name(f"{path.name}.1"), kept, durable=False)
        os.truncate(path, 0)
        self._read[path.name] = _file_position(path)


def _file_position(path: Path) -> tuple[int, int]:
    """Inode and size."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_ino, found.st_size
