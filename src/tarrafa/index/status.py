"""Status of the index for `tarrafa status`: documents, bytes behind, shards.

Promises: opens nothing for writing.
"""

import msgspec

from tarrafa.index import schema, shards
from tarrafa.index.anchor_refresh import is_settled
from tarrafa.index.follower import behind
from tarrafa.index.reader import IndexReader
from tarrafa.runtime.data_dir import DataDirectory


class IndexStatus(msgspec.Struct, frozen=True):
    """`shards` as `rebuild index --shards` takes it; `settled`: every page was written with the present links."""

    shards: str
    documents: int
    behind_bytes: int
    settled: bool


def index_status(data: DataDirectory) -> IndexStatus | None:
    """None without an index."""
    there = [part for part in shards.parts(data) if schema.exists(part)]
    if not there:
        return None
    documents = sum(IndexReader(part).snapshot().documents for part in there)
    return IndexStatus(str(shards.read_layout(data)), documents, behind(data), is_settled(data))
