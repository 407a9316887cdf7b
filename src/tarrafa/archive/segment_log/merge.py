"""Merge: the objects of many small segments become one large pair of objects; numbers, places and bytes stay.

Promises: objects that are replaced stay in the store for ten minutes, and a mirror that misses one reads its row again;
killed at any moment, the log is as before or as after, and objects that no row names are deleted by a later sweep; two
machines never replace the same objects. The last segments are not merged: they are read by all mirrors just now.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import (
    LogIdentity,
    Segment,
    SegmentManifest,
    SegmentPart,
    digest,
    is_merged,
    merged_name,
    next_name,
    object_names_of,
)
from tarrafa.errors import Locked
from tarrafa.i18n import message

MERGED_BYTES = 128 << 20
ROWS_AT_ONCE = 1_000
LAST_KEPT = 100
RETIRED_AFTER_S = 600.0


def merge_segments(
    mirror: LogMirror, manifest: SegmentManifest, log: LogIdentity, on_merged: Callable[[], None],
    merged_bytes: int = MERGED_BYTES,
) -> int:  # fmt: skip
    """Merge what is not merged yet, wherever it makes a full object; the number of segments that were merged."""
    merged = 0
    for group in _groups(manifest, manifest.head().number - LAST_KEPT, merged_bytes):
        contents = [mirror.read(one) for one in group]
        replace_objects(mirror.store, manifest, log, group, contents, RETIRED_AFTER_S)
        merged += len(group)
        on_merged()
    return merged


def _groups(manifest: SegmentManifest, last: int, merged_bytes: int) -> Iterator[list[Segment]]:
    """Segments one after the other that have objects of their own, and fill one together."""
    group, size, number = list[Segment](), 0, 1
    while number <= last and (found := manifest.segments(number, ROWS_AT_ONCE)):
        for one in found:
            if is_merged(one.name) or one.number > last:
                group, size = [], 0
            elif not one.note:
                group.append(one)
                size += one.warc.size + one.meta.size
            if group and size >= merged_bytes:
                yield group
                group, size = [], 0
        number = found[-1].number + 1


def replace_objects(
    store: ObjectStore,
    manifest: SegmentManifest,
    log: LogIdentity,
    group: list[Segment],
    contents: list[tuple[bytes, bytes]],
    after_s: float,
) -> None:
    """Put new objects for segments, one after the other in them, and let their rows name these. The old objects are
    retired after some time."""
    warc, meta = (b"".join(content) for content in zip(*contents, strict=True))
    if len(group) == 1 and not is_merged(group[0].name):
        name = next_name(group[0].name, digest(warc), digest(meta))
    else:
        name = merged_name(log, group[0].number, group[-1].number, digest(warc + meta))
    new, warc_offset, meta_offset = list[Segment](), 0, 0
    for one, (warc_part, meta_part) in zip(group, contents, strict=True):
        parts = _at(one.warc, warc_part, warc_offset), _at(one.meta, meta_part, meta_offset)
        new.append(replace(one, name=name, warc=parts[0], meta=parts[1]))
        warc_offset, meta_offset = warc_offset + len(warc_part), meta_offset + len(meta_part)
    manifest.announce(name)
    for one_name, content in zip(object_names_of(name), (warc, meta), strict=True):
        store.put(one_name, content)
    if not manifest.replace(group, new, after_s):
        raise another_machine_rewrites()


def _at(part: SegmentPart, content: bytes, offset: int) -> SegmentPart:
    assert len(content) == part.size
    return replace(part, digest=digest(content), offset=offset)


def another_machine_rewrites() -> Locked:
    return Locked(message("another machine rewrites the log; run it again"))
