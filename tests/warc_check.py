"""Is this a sound WARC file, to tools other than ours?"""

import subprocess
import sys
import zlib
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

CHUNK_BYTES = 1 << 16
# warcio 1.8 cannot undo brotli with the module that is called brotli: it sets an attribute that is not there. Without
# it bodies are checked as they are, which is what their digests are of.
WARCIO = (
    "from warcio.bufferedreaders import BufferedReader; BufferedReader.DECOMPRESSORS.pop('br', None);"
    "from warcio.cli import main; main()"
)


def check_warc_file(path: Path) -> int:
    """`warcio check` accepts it and each record is a gzip member of its own; the number of records."""
    checked = subprocess.run([sys.executable, "-c", WARCIO, "check", "-v", path], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    assert "digest pass" in checked.stdout
    with path.open("rb") as stream:
        records = sum(1 for _ in ArchiveIterator(stream))
    assert _members(path.read_bytes()) == records
    return records


def _members(data: bytes) -> int:
    count, at = 0, 0
    while at < len(data):
        unzip = zlib.decompressobj(wbits=31)
        while not unzip.eof:
            part = data[at : at + CHUNK_BYTES]
            assert part, "a torn member"
            unzip.decompress(part)
            at += len(part) - len(unzip.unused_data)
        count += 1
    return count
