"""Applies takedowns to the index: deletes documents, and notes for search that they are deleted.

Promises: a page that is taken down is deleted with the next commit. Search need not filter pages that the index has
deleted, as reported by `is_applied`: the marker is written after the commit, and removed before the next change. Until
then search filters by itself (`search/exclusion_filter.py`), so the page is never shown in between. Knows nothing of
how documents are written.
"""

from contextlib import suppress
from pathlib import Path

import tantivy

from tarrafa.errors import data_error_from_os
from tarrafa.index import schema
from tarrafa.index.document_fields import split_url_id
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.takedown import TakedownSet


def _marker_path(data: DataDirectory) -> Path:
    return data.index / "withheld"


def is_applied(data: DataDirectory, orders: TakedownSet) -> bool:
    """Whether no taken-down page is in a snapshot that is taken after this call."""
    try:
        return _marker_path(data).read_bytes() == orders.digest
    except OSError:
        return False


def mark_applied(data: DataDirectory, orders: TakedownSet) -> None:
    """Write the marker: the index is committed and complies with the takedowns."""
    try:
        write_atomically(_marker_path(data), orders.digest, durable=False)
    except OSError as error:
        raise data_error_from_os(error, _marker_path(data)) from None


def clear_applied(data: DataDirectory) -> None:
    """Remove the marker."""
    try:
        _marker_path(data).unlink(missing_ok=True)
    except OSError as error:
        raise data_error_from_os(error, _marker_path(data)) from None


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """Take over the marker of another index."""
    with suppress(FileNotFoundError):
        _marker_path(successor).replace(_marker_path(data))


def delete_documents(writer: tantivy.IndexWriter, added: TakedownSet) -> None:
    """Delete the documents that were taken down."""
    for site in added.sites:
        writer.delete_documents_by_term(schema.SITE, site)
    for host in added.hosts:
        for name in (host, f"{host}."):
            writer.delete_documents_by_term(schema.HOST, name)
    for url in added.urls:
        writer.delete_documents_by_term(schema.ID_HIGH, split_url_id(url)[0])
