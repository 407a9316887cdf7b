"""Says how many of the pages that a collection keeps can be searched, and why the others cannot.

The frontier knows which pages are kept, the index which of them it has, and why it leaves others out. Promises: pure;
the counts add up exactly: kept + unkept = searchable + noindex + taken_down + waiting + elsewhere.
"""

import msgspec

from tarrafa.i18n import Message, joined, messages
from tarrafa.index.follower import IndexStatus
from tarrafa.parse.rdf.nquads import STATEMENTS_LENGTH_MAX, STATEMENTS_MAX
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX


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
    unkept: int = 0  # still in the index: the change is not there yet, or its host was forgotten
    cut: int = 0
    cut_text: int = 0

    def why_not_searchable(self) -> Message | str:
        """The reasons, with their counts; empty: every page can be searched."""
        reasons = (
            messages("{count} says noindex", "{count} say noindex", self.noindex),
            messages("{count} was taken down", "{count} were taken down", self.taken_down),
            messages("{count} waits for the index", "{count} wait for the index", self.waiting),
            messages("{count} is on another machine", "{count} are on other machines", self.elsewhere),
            messages("{count} in the index is no longer kept", "{count} in the index are no longer kept", self.unkept),
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
