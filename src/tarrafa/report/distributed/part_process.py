"""The process that sends the report part of this machine to another one.

`python -m tarrafa.report.distributed.part_process`: started for one request, which comes by its standard input; the
frames of the response (`part_wire`) go to its standard output, after progress messages a few times a second. A process
of its own with a low priority: reading an archive occupies a processor, and searches and crawl come first.
"""

import os
import sys

import msgspec

from tarrafa.clock import boottime
from tarrafa.errors import TarrafaError
from tarrafa.report.distributed.local_part import PartRequest, gather_local_part
from tarrafa.report.distributed.part_wire import REQUEST_BYTES_MAX, PartFailed, PartProgress, encode_frame, encode_part
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.data_dir import DataDirectory

NICE = 10
PROGRESS_EVERY_S = 0.25
WHY_CHARS_MAX = 300


def _send_part(data: DataDirectory, request: PartRequest) -> None:
    out, sent_at = sys.stdout.buffer, 0.0

    def send_progress(done: int, total: int) -> None:
        nonlocal sent_at
        if boottime() - sent_at >= PROGRESS_EVERY_S:
            sent_at = boottime()
            out.write(encode_frame(PartProgress(done, total)))
            out.flush()

    try:
        data.check_version()
        for one in encode_part(gather_local_part(data, request, send_progress)):
            out.write(one)
    except (TarrafaError, OSError) as error:
        out.write(encode_frame(PartFailed(str(error)[:WHY_CHARS_MAX])))
    out.flush()


def main(data: DataDirectory) -> None:
    os.nice(NICE)
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(REQUEST_BYTES_MAX), type=PartRequest)
    _send_part(data, request)


if __name__ == "__main__":
    run_child(main)
