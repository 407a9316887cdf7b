"""Orphans: objects in the store that no segment names, because their writer was killed before its row; and objects that
were retired when a segment was rewritten.

Promises: only retired objects, and objects of writers that can never append again, are deleted; those of an unknown or
a living writer stay, however old they are. Each writer is swept once.
"""

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest, object_names_of, writer_prefix

WRITERS_PER_SWEEP = 100


def sweep_orphans(store: ObjectStore, log: LogIdentity, manifest: SegmentManifest) -> int:
    """Delete the orphans of some writers that are gone; the number of deleted objects."""
    deleted = 0
    for worker in manifest.unswept_writers(WRITERS_PER_SWEEP):
        named = {ending for name in manifest.names(worker) for ending in object_names_of(name)}
        orphans = [name for name in store.names(writer_prefix(log, worker)) if name not in named]
        if orphans:
            store.delete(orphans)
        manifest.mark_swept(worker)
        deleted += len(orphans)
    return deleted + remove_retired(store, manifest)


def remove_retired(store: ObjectStore, manifest: SegmentManifest) -> int:
    """Delete retired objects, and then what the manifest knows of them; the number of deleted objects. A mirror that
    misses one reads its row again."""
    deleted = 0
    while names := manifest.retired(WRITERS_PER_SWEEP):
        store.delete([one for name in names for one in object_names_of(name)])
        manifest.forget_retired(names)
        deleted += 2 * len(names)
    return deleted
