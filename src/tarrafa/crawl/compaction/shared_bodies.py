"""Bodies that are to be erased, and that records of other URLs refer to: these records get the bytes themselves.

A requisite with the same bytes as another URL is archived as a reference to it (`crawl/worker/committer`). An order to
erase that URL is none to erase this one, whose server has sent the same bytes. Promises: afterwards no record that
stays refers to one that goes, so that other pages, and what is under a legal hold, stay whole. Killed at any moment,
the rest is done by the next run. The caller holds DATA/lock.
"""

import logging
from collections.abc import Callable
from contextlib import closing

from tarrafa.archive.file_rewrite import ReadMember, RewrittenVisit, with_body
from tarrafa.archive.warc_reader import match_head, read_member
from tarrafa.archive.warc_writer import RECORD_END, RESOURCE, REVISIT
from tarrafa.captures import follower as captures
from tarrafa.captures.store import RESPONSE_KIND, SAME_PAYLOAD_KIND, open_reader
from tarrafa.captures.surt import surt
from tarrafa.crawl.compaction.file_groups import CompactionGroup, complete_pairs
from tarrafa.crawl.compaction.group_rewriter import GroupRewriter, UnreadablePair
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows

REFERENCES = (
    "SELECT DISTINCT name, url, refers_url FROM captures JOIN files USING (file) WHERE kind = ? AND refers_url > ''"
)
REFERENCE = (
    "SELECT refers_url, refers, digest FROM captures JOIN files USING (file)"
    " WHERE urlkey = ? AND name = ? AND offset = ? AND kind = ? AND refers_url > ''"
)
ORIGINAL = (
    "SELECT name, offset, length FROM captures JOIN files USING (file)"
    " WHERE urlkey = ? AND timestamp = ? AND digest = ? AND kind = ?"
)
Covers = Callable[[str], bool]
log = logging.getLogger(__name__)


def give_bodies(data: DataDirectory, covers: Covers) -> bool:
    """Give bodies that are covered to the records of other URLs that refer to them; whether there were any. Then the
    index of captures is to be made anew."""
    captures.catch_up(data)
    with closing(open_reader(data)) as index:
        found = {
            name for name, url, of in rows(index, REFERENCES, (SAME_PAYLOAD_KIND,)) if covers(of) and not covers(url)
        }
    rewriter, choice = GroupRewriter(data), SharedBodies(data, covers)
    groups = [CompactionGroup([pair]) for pair in complete_pairs(data) if pair.name in found]
    for batch in rewriter.batches(groups):
        _rewrite(rewriter, batch, choice)
    return bool(groups)


def _rewrite(rewriter: GroupRewriter, batch: list[CompactionGroup], choice: "SharedBodies") -> None:
    """Rewrite a batch without its damaged files: these must not prevent an erasure."""
    while batch:
        try:
            rewriter.rewrite(batch, choice)
        except UnreadablePair as error:
            log.warning("%s", error)
            batch = [part for one in batch for part in one.without(error.name)]
        else:
            return


class SharedBodies:
    """Keeps everything, and gives references to what is covered their bodies."""

    drops_gaps = True

    def __init__(self, data: DataDirectory, covers: Covers) -> None:
        self._data, self._covers = data, covers

    def rewrite_capture(self, file: str, member: ReadMember) -> bytes:
        if member.kind != REVISIT or self._covers(member.url):
            return member.packed
        body = self._find_body(file, member)
        return member.packed if body is None else with_body(member, body)

    def keeps_note(self, file: str, member: ReadMember) -> bool:
        return True

    def rewrite_visit(self, file: str, member: ReadMember, record: Callable[[], VisitRecord]) -> RewrittenVisit:
        return RewrittenVisit()

    def _find_body(self, file: str, member: ReadMember) -> bytes | None:
        """The body to which a record refers, if it is covered."""
        key = surt(member.url.strip("<>"))
        with closing(open_reader(self._data)) as index:
            found = rows(index, REFERENCE, (key, file, member.position, SAME_PAYLOAD_KIND))
            if not found or not self._covers(found[0][0]):
                return None
            url, at, digest = found[0]
            places = rows(index, ORIGINAL, (surt(url), at, digest, RESPONSE_KIND))
        return self._read_body(*places[0]) if places else None

    def _read_body(self, name: str, offset: int, length: int) -> bytes | None:
        with (self._data.archive / f"{name}.warc.gz").open("rb") as stream:
            stream.seek(offset)
            record, _ = read_member(stream, length)
        found = match_head(record)
        if found is None:
            return None
        content = record[found.end() : -len(RECORD_END)]
        if found[1].decode() == RESOURCE:  # imported without an HTTP header
            return content
        header, _, body = content.partition(b"\r\n\r\n")
        return content.partition(b"\n\n")[2] if b"\n\n" in header else body
