"""Schema of the tantivy index, and how the index is opened, replaced and removed.

Promises: an error of tantivy (a ValueError for everything, a Rust panic at worst) becomes one line that says where it
happened and what to do. A document's `key` is raw text, because deleting by an unsigned number silently deletes
nothing. An index of another layout is recognised by the schema in its own `meta.json`, and never opened. Knows nothing
of records or queries.

`all` holds the text of the page, the title eight times, headings and anchors three times: term frequency is the weight.
`template` holds what the page shares with others of its host or only lists (menus, lists of links, the name of the site
in its title): it is found there, and scores a tenth (`TEMPLATE_SHARE` in `search.query_builder`). `pairs` holds each
two adjacent frequent terms as one term (`text_analysis`): a phrase of two frequent words is one look-up there, where
their positions would take twenty times as long. `title` adds a small score and serves `intitle:`. `words` holds each
different word once, as it is written, behind its folded form where that is another (`funcao|função`), and marked where
only the template has it (`funcao~função`): the vocabulary of the index, found by prefix, whatever the accents, and as
new as the pages. `static` is the link factor, scaled so that tantivy's log2(2 + static) is the factor; it is below 0
for a listing, where tantivy takes it for 0, and only there. Terms are made in Python and handed over joined by spaces:
tantivy takes no analysis in Python, and its pre-tokenized strings cost three times as much (468 against 149 us for 450
terms). tantivy-py indexes every text field, so fields that are only displayed are stored as bytes.
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
from tarrafa.i18n import message
from tarrafa.index.text_analysis import FREQUENT_TERMS_FORMAT
from tarrafa.model import DateKind, DeclaredEntity
from tarrafa.runtime.data_dir import DataDirectory

TITLE_WEIGHT, HEADING_WEIGHT, ANCHOR_WEIGHT = 8, 3, 3  # how often each is in `all`

TOKENIZER = "terms"
REMOVED_NAME = "gone"

KEY = "key"  # collection and URL id: identifies a document
COLLECTION = "collection"
ALL = "all"
PAIRS = f"pairs_{FREQUENT_TERMS_FORMAT}"  # another list of frequent words is another layout
TEMPLATE = "template"
TITLE = "title"
NAMED = "named"  # hashes of the whole title and of the first heading, with and without a chapter number before them
SITE = "site"  # the host's name and every domain above it
HOST = "host"
LANGUAGE = "language"
WORDS = "words"
URL = "url"  # the words of the URL
TYPE = "type"  # MIME type, and its short names
KIND = "kind"  # types and dates of the entities that the page declares: see parse/rdf/entity.py
DATE = "date"  # when the page was published, else changed, else seen: seconds since 1970
STATIC = "static"
IN_LINKS = "in_links"  # at indexing time; search reads the present value from the graph
SITE_ID = "site_id"  # hash of the site's name, fast to read for many hits
ID_HIGH, ID_LOW = "id_high", "id_low"  # the URL's id in two halves, fast to read for many hits
CONTENT = "content"  # half of the content id: exact copies have the same; a page without words has none
SIMHASH = "simhash"  # near copies differ in few bits; a short page has none, and only exact copies
HEADLINE = "headline"  # hash of the shown title
CANONICAL = "canonical"  # first half of the id of another URL, if the page names one as its canonical URL
URL_LENGTH = "url_length"
LENGTH = "length"  # number of terms in `all`
SHOWN = "shown"  # a `StoredDocument`, only stored


class StoredDocument(msgspec.Struct, frozen=True, array_like=True):
    """The displayed fields of a document; the letters of the text are composed. The text begins with the content of the
    page, its other lines follow, then what it shares with other pages or only lists.
    """

    url: str
    title: str
    text: str
    language: str
    date: str
    collection: str
    type: str = ""
    declared: tuple[DeclaredEntity, ...] = ()
    date_kind: DateKind = "seen"
    content_chars: int = 0  # of the text
    own_chars: int = 0  # of the text: content and other lines
    full_title: str = ""  # if it is another than the shown one
    description: str = ""
    alternates: tuple[tuple[str, str], ...] = ()  # hreflang and URL


def _build() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    for name in (KEY, COLLECTION, SITE, HOST, LANGUAGE, TYPE, KIND, NAMED):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    for name in (ALL, PAIRS, TEMPLATE, TITLE, URL):
        builder.add_text_field(name, tokenizer_name=TOKENIZER, index_option="position")
    builder.add_text_field(WORDS, tokenizer_name=TOKENIZER, index_option="basic")
    for name in (ID_HIGH, CONTENT):
        builder.add_integer_field(name, indexed=True, fast=True)
    for name in (ID_LOW, SIMHASH, HEADLINE, CANONICAL, URL_LENGTH, LENGTH, DATE, IN_LINKS, SITE_ID):
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
    """Remove the documents in one step: tantivy cannot open a half deleted index."""
    path = folder(data)
    remove_leftovers(data)
    with suppress(FileNotFoundError):
        path.rename(path.with_name(REMOVED_NAME))
    remove_leftovers(data)


def remove_leftovers(data: DataDirectory) -> None:
    """Remove files that a killed `remove` has left."""
    shutil.rmtree(folder(data).with_name(REMOVED_NAME), ignore_errors=True)


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """Exchange these documents with those of another index: in one step, where the file system can; else there are none
    for a moment.
    """
    if not exchange(folder(data), folder(successor)):
        remove(data)
        folder(successor).rename(folder(data))


AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def exchange(one: Path, other: Path) -> bool:
    """Exchange two paths; whether it worked."""
    with suppress(AttributeError):  # a C library older than 2018
        rename = ctypes.CDLL(None).renameat2
        return bool(rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
    return False


def is_other_version(data: DataDirectory) -> bool:
    """Whether there is a readable index with the layout of another version of Tarrafa."""
    path = folder(data)
    with suppress(DataError), tantivy_errors(path):
        return exists(data) and bool(tantivy.Index.open(str(path)).schema != SCHEMA)
    return False


def open_index(data: DataDirectory, create: bool = False) -> tantivy.Index:
    """Open the index; its tokenizers are not stored in it and are registered every time."""
    path = folder(data)
    with tantivy_errors(path):
        if create:
            path.mkdir(parents=True, exist_ok=True)
            index = tantivy.Index(SCHEMA, path=str(path))
        else:
            index = tantivy.Index.open(str(path))
    if index.schema != SCHEMA:
        raise DataError(
            message(
                "{path}: the index was written by another version of Tarrafa; `tarrafa rebuild index`"
                " makes it again from the archive",
                path=path,
            )
        )
    index.register_tokenizer(TOKENIZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())
    return index


DISK_FULL_MESSAGES = ("No space left", "File too large", "Disk quota exceeded")


class tantivy_errors:  # lower case: used like a function
    """Turns errors of tantivy into one line. (A class: as a generator it would cost a search 30 us.)"""

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
        return DiskFull(
            message(
                "{path}: the disk is full ({what}); free some space and run the command again", path=path, what=what
            )
        )
    if "LockBusy" in what:
        return DataError(message("{path}: another process is writing the index", path=path))
    return DataError(
        message(
            "{path}: the index cannot be used ({what}); `tarrafa rebuild index` makes it from the archive",
            path=path,
            what=what,
        )
    )
