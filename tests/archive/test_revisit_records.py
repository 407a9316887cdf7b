"""What did not change is archived once: WARC 1.1, section 6.7."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.revisit_record import NOT_MODIFIED, SAME_PAYLOAD
from tarrafa.archive.warc_writer import WarcWriter, sha1_digest
from tests.archive.test_warc_files import HEAD, a_record, an_exchange
from tests.warc_check import check_warc_file

UNCHANGED = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'


def records(path: Path) -> list[tuple[str, dict[str, str], bytes]]:
    with path.open("rb") as stream:
        return [
            (record.rec_type, dict(record.rec_headers.headers), record.raw_stream.read())
            for record in ArchiveIterator(stream, no_record_parse=True)
        ]


@pytest.mark.parametrize("at", [1_700_000_000.25, 1_700_000_000.0])
def test_an_unchanged_page_becomes_a_revisit_record_that_other_tools_read(tmp_path, at):
    first = replace(an_exchange(1), at=at)
    digest = sha1_digest(first.response[len(HEAD) :])
    same = replace(first, at=at + 50, payload=digest, archived_payload=digest, archived_at=at)
    unchanged = replace(same, at=at + 90, response=UNCHANGED, head_bytes=len(UNCHANGED))
    writer = WarcWriter(tmp_path, "w1", 0.0)
    for number, exchange in enumerate((first, same, unchanged)):
        writer.append(a_record(number), exchange)
    writer.close()
    (path,) = [path for path in tmp_path.glob("*.warc.gz") if "meta" not in path.name]
    check_warc_file(path)
    found = [one for one in records(path) if one[0] in ("response", "revisit")]
    assert [kind for kind, _, _ in found] == ["response", "revisit", "revisit"]
    whole = found[0][1]
    for (_, headers, body), profile, head in zip(
        found[1:], (SAME_PAYLOAD, NOT_MODIFIED), (HEAD, UNCHANGED), strict=True
    ):
        assert headers["WARC-Profile"] == profile
        assert headers["WARC-Refers-To-Target-URI"] == first.url
        assert headers["WARC-Refers-To-Date"] == whole["WARC-Date"]
        assert headers["WARC-Payload-Digest"] == whole["WARC-Payload-Digest"]
        assert body == head
