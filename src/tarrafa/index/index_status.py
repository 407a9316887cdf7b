"""Status of the index: its size, how far it is behind, and how many of the kept pages can be searched.

The frontier knows which pages are kept, the index which of them it has, and why it leaves others out. Promises: opens
nothing for writing; the counts of a collection add up exactly: kept + no_longer_kept = searchable + noindex +
taken_down + waiting + elsewhere.
"""

from collections import Counter
from collections.abc import Sequence

import msgspec

from tarrafa.i18n import Message, joined, messages
from tarrafa.index import schema, shards
from tarrafa.index.follower import behind, is_settled
from tarrafa.index.index_state import PagesByFate, pages_by_fate
from tarrafa.parse.rdf.nquads import STATEMENTS_LENGTH_MAX, STATEMENTS_MAX
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX
from tarrafa.runtime.data_dir import DataDirectory


class IndexStatus(msgspec.Struct, frozen=True):
    """`shards` as `rebuild index --shards` takes it; `settled`: every page was written with the present links. `urls`:
    each counts once; a URL in two collections is two `documents`.
    """

    shards: str
    urls: int
    documents: int
    behind_bytes: int
    settled: bool
    collections: list[PagesByFate]

    def of(self, collection: str) -> PagesByFate:
        return next((one for one in self.collections if one.collection == collection), PagesByFate(collection))


def index_status(data: DataDirectory) -> IndexStatus | None:
    """None without an index. Opens nothing for writing."""
    there = [part for part in shards.parts(data) if schema.exists(part)]
    if not there:
        return None
    found, urls = count_pages(there)
    documents = sum(one.indexed for one in found)
    return IndexStatus(str(shards.read_layout(data)), urls, documents, behind(data), is_settled(data), found)


def count_pages(parts: Sequence[DataDirectory]) -> tuple[list[PagesByFate], int]:
    """The pages of each collection by fate, in these parts; and the number of indexed URLs, each counted once: the
    pages of a host are all in one part.
    """
    sums, urls = dict[str, Counter[str]](), 0
    for part in parts:
        found, indexed = pages_by_fate(part)
        urls += indexed
        for one in found:
            counts = msgspec.structs.asdict(one)
            sums.setdefault(counts.pop("collection"), Counter()).update(counts)
    return [PagesByFate(name, **sums[name]) for name in sorted(sums)], urls


# -- kept pages --------------------------------------------------------------------------------------------------------


class KeptPages(msgspec.Struct, frozen=True):
    """The pages of a collection. `cut`: searchable ones with more structured data than is kept of one page;
    `cut_text`: with more text."""

    collection: str
    kept: int
    searchable: int = 0
    noindex: int = 0  # the page says so
    taken_down: int = 0  # since it was fetched
    waiting: int = 0  # in this machine's archive, and not yet in its index
    elsewhere: int = 0  # in the archives of other machines
    no_longer_kept: int = 0  # still in the index: the change is not there yet, or its host was forgotten
    cut: int = 0
    cut_text: int = 0

    def why_not_searchable(self) -> Message | str:
        """The reasons, with their counts; empty: every page can be searched."""
        reasons = (
            messages("{count} says noindex", "{count} say noindex", self.noindex),
            messages("{count} was taken down", "{count} were taken down", self.taken_down),
            messages("{count} waits for the index", "{count} wait for the index", self.waiting),
            messages("{count} is on another machine", "{count} are on other machines", self.elsewhere),
            messages(
                "{count} in the index is no longer kept",
                "{count} in the index are no longer kept",
                self.no_longer_kept,
            ),
        )
        return joined([reason for reason in reasons if reason.values["count"]], ", ")

    def cut_notice(self) -> Message | str:
        """Counts the pages whose structured data or text are not whole; empty: there are none."""
        data = messages(
            "{count} page has more structured data than is kept of one page ({statements} statements, {characters}"
            " characters)",
            "{count} pages have more structured data than is kept of one page ({statements} statements, {characters}"
            " characters)",
            self.cut,
            statements=STATEMENTS_MAX,
            characters=STATEMENTS_LENGTH_MAX,
        )
        text = messages(
            "{count} page has more text than is kept of one page ({characters} characters)",
            "{count} pages have more text than is kept of one page ({characters} characters)",
            self.cut_text,
            characters=TEXT_LENGTH_MAX,
        )
        return joined([notice for notice in (data, text) if notice.values["count"]])


def count_kept_pages(collection: str, kept: int, index: IndexStatus, elsewhere: int | None = None) -> KeptPages:
    """The pages of a collection that keeps so many. `elsewhere`: how many other machines have archived, if known; else
    all that is missing here, if the index has read all of the archive.
    """
    found = index.of(collection)
    missing = kept - found.indexed - found.noindex - found.taken_down
    if elsewhere is None:
        elsewhere = 0 if index.behind_bytes else missing
    elsewhere = max(0, min(elsewhere, missing))
    return KeptPages(
        collection, kept, found.indexed, found.noindex, found.taken_down, max(0, missing - elsewhere), elsewhere,
        max(0, -missing), found.cut, found.cut_text,
    )  # fmt: skip
