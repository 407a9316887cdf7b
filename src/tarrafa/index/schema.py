"""Schema of the tantivy index, and how the index is opened, replaced and removed.

Promises: what tantivy raises (a ValueError for everything, a Rust panic at worst) leaves here as one line that says
where and what to do. A document's `key` is raw text, because deleting by an unsigned number silently deletes nothing.
An index of another layout is recognised and never half understood: its own schema, inside its own `meta.json`, tells.
Knows nothing of records or queries.

`all` holds everything that can be found, title eight times, headings and anchors three times: term frequency is the
weight. `pairs` holds the same, each two neighbours as one term: a phrase of two words is one look-up there, where
from the places of two frequent words it would take a hundred times as long, and `all` need not keep any places.
`title` is there for a small extra and for `intitle:`. `words` holds each different word once, as it is written,
behind its folded form where that is another (`funcao|função`): the vocabulary of the index, found by its beginnings
whatever the accents, and as new as the pages. `static` is what links are worth, made so that tantivy's log2(2 +
static) is the factor. Terms are made in Python and handed over joined by spaces: tantivy takes no analysis in Python,
and its pre-tokenized strings cost three times as much (468 against 149 us for 450 terms). tantivy-py indexes every
text field, so what is only to be shown is kept as bytes.
"""

import ctypes
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import msgspec
import tantivy

from tarrafa.errors import DataError, DiskFull
from tarrafa.model import DeclaredEntity
from tarrafa.runtime.data_dir import DataDirectory

TOKENIZER = "terms"
REMOVED_NAME = "gone"

KEY = "key"  # collection and URL id: one document
COLLECTION = "collection"
ALL = "all"
PAIRS = "pairs"
TITLE = "title"
SITE = "site"  # the host's name and every domain above it
HOST = "host"
LANGUAGE = "language"
WORDS = "words"
URL = "url"  # the words of the address
TYPE = "type"  # its MIME type, and the short names of it
KIND = "kind"  # of which kinds the things are that it declares, and when they are: see parse/rdf/entity_summary.py
UPDATED = "updated"  # seconds since 1970
STATIC = "static"
IN_LINKS = "in_links"  # as known when the page was indexed; search asks the graph again
SITE_ID = "site_id"  # what the name hashes to, fast to read for many hits
ID_HIGH, ID_LOW = "id_high", "id_low"  # the URL's id in two halves, fast to read for many hits
CONTENT = "content"  # half of the content id: exact copies have the same; a page without words has none
SIMHASH = "simhash"  # near copies differ in few bits; a short page has none, and only exact copies
HEADLINE = "headline"  # what the title says, as a number
URL_LENGTH = "url_length"
LENGTH = "length"  # how many terms `all` holds of it
SHOWN = "shown"  # a `Shown`, only stored


class StoredDocument(msgspec.Struct, frozen=True, array_like=True):
    """What a hit shows of its document; letters of the text are composed."""

    url: str
    title: str
    text: str
    language: str
    updated: str
    collection: str
    type: str = ""
    declared: tuple[DeclaredEntity, ...] = ()


def _build() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in (KEY, COLLECTION, SITE, HOST, LANGUAGE, TYPE, KIND):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name, kept in ((ALL, "freq"), (PAIRS, "position"), (TITLE, "position"), (URL, "position")):
        builder.add_text_field(name, tokenizer_name=TOKENIZER, index_option=kept)
    builder.add_text_field(WORDS, tokenizer_name=TOKENIZER, index_option="basic")
    for name in (ID_HIGH, CONTENT):
        builder.add_integer_field(name, indexed=True, fast=True)
    for name in (ID_LOW, SIMHASH, HEADLINE, URL_LENGTH, LENGTH, UPDATED, IN_LINKS, SITE_ID):
        builder.add_integer_field(name, fast=True)
    builder.add_float_field(STATIC, fast=True)
    builder.add_bytes_field(SHOWN, stored=True)
    return builder.build()


SCHEMA = _build()


def folder(data: DataDirectory) -> Path:
    return data.index / "text"


def exists(data: DataDirectory) -> bool:
    return (folder(data) / "meta.json").exists()


def remove(data: DataDirectory) -> None:
    """Take the documents away, at one stroke: of an index that was half deleted tantivy could make nothing."""
    path = folder(data)
    remove_leftovers(data)
    with suppress(FileNotFoundError):
        path.rename(path.with_name(REMOVED_NAME))
    remove_leftovers(data)


def remove_leftovers(data: DataDirectory) -> None:
    """Remove what somebody who was killed had taken away."""
    shutil.rmtree(folder(data).with_name(REMOVED_NAME), ignore_errors=True)


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """Put the documents of another in the place of these, and these in their place: at one stroke, where the file
    system can; else there are none for a moment."""
    if not _exchange(folder(data), folder(successor)):
        remove(data)
        folder(successor).rename(folder(data))


AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def _exchange(one: Path, other: Path) -> bool:
    """Whether these two paths now name what the other one did."""
    with suppress(AttributeError):  # a C library older than 2018
        rename = ctypes.CDLL(None).renameat2
        return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
    return False


def is_other_version(data: DataDirectory) -> bool:
    """Whether there is an index that can be opened, and another version of Tarrafa laid it out."""
    path = folder(data)
    with suppress(DataError), tantivy_errors(path):
        return exists(data) and bool(tantivy.Index.open(str(path)).schema != SCHEMA)
    return False


def open_index(data: DataDirectory, create: bool = False) -> tantivy.Index:
    """The index as it stands; tokenizers are not kept in it and are registered every time."""
    path = folder(data)
    with tantivy_errors(path):
        if create:
            path.mkdir(parents=True, exist_ok=True)
            index = tantivy.Index(SCHEMA, path=str(path))
        else:
            index = tantivy.Index.open(str(path))
    if index.schema != SCHEMA:
        raise DataError(
            f"{path}: the index was written by another version of Tarrafa; `tarrafa rebuild index` makes it again "
            "from the archive, and so does the next `tarrafa crawl`"
        )
    index.register_tokenizer(TOKENIZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    return index


DISK_FULL_MESSAGES = ("No space left", "File too large", "Disk quota exceeded")


class tantivy_errors:  # reads as the sentence that it is
    """What tantivy complains of, as one line. (A class: as a generator it would cost a search 30 us.)"""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # A panic is pyo3's PanicException, which has no name to import.
        if isinstance(error, ValueError | OSError) or (kind is not None and kind.__name__ == "PanicException"):
            raise _data_error(self._path, str(error)) from None


def _data_error(path: Path, what: str) -> DataError:
    what = " ".join(what.split())[:200]
    if any(sign in what for sign in DISK_FULL_MESSAGES):
        return DiskFull(f"{path}: the disk is full ({what}); free some space and run the command again")
    if "LockBusy" in what:
        return DataError(f"{path}: another process is writing the index")
    return DataError(f"{path}: the index cannot be used ({what}); `tarrafa rebuild index` makes it from the archive")
