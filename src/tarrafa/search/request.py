"""Search request and Shard protocol, with the structs that shards exchange.

A *shard* is one index with its graph, in this process or behind a URL. A request goes to every shard twice: first
`statistics` (the number of documents, and of documents that hold each term), then, with the sums over all shards,
`top_matches`. `show` makes hits of the few that are displayed. Promises: the same structs for every shard, with bounds
on all values from another machine: `remote_shard` accepts only values that fit the annotations here. Knows nothing of
tantivy, HTTP or HTML.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.index.shards import SHARDS_MAX
from tarrafa.model import DateKind, DeclaredEntity, UrlId

HITS_MAX = 100  # per response
RESULT_DEPTH_MAX = 1_000
BLOCK_MATCHES = 50  # matches among which copies find their place and sites are spread
URLS_MAX = 100  # URLs that are looked up at once
MATCHES_MAX = 2_000  # matches, however few hits they make: 40 ms
EXPANSION_TERMS_MAX = 100
SHARD_WORDS_MAX = 100  # words that a shard reports at once
BEFORE_CHARS_MAX = 1_000

Count = Annotated[int, Meta(ge=0)]
DocumentAddress = tuple[Annotated[int, Meta(ge=0, lt=1 << 32)], Annotated[int, Meta(ge=0, lt=1 << 32)]]
DocumentAddresses = Annotated[list[DocumentAddress], Meta(max_length=HITS_MAX)]
Ids = Annotated[list[Annotated[UrlId, Meta(min_length=16, max_length=16)]], Meta(max_length=URLS_MAX)]
Limit = Annotated[int, Meta(ge=1, le=MATCHES_MAX)]
Word = Annotated[str, Meta(max_length=100)]
PrecedingText = Annotated[str, Meta(max_length=BEFORE_CHARS_MAX)]
WordLimit = Annotated[int, Meta(ge=1, le=SHARD_WORDS_MAX)]
Completions = Annotated[list[tuple[Word, Count]], Meta(max_length=SHARD_WORDS_MAX)]
Spellings = Annotated[list[tuple[Word, Count, Count]], Meta(max_length=SHARD_WORDS_MAX)]
WeightedWords = Annotated[list[tuple[Word, float]], Meta(max_length=SHARD_WORDS_MAX)]


class Sort(StrEnum):
    """The order of the hits."""

    RELEVANCE = "relevance"
    DATE = "date"
    LINKS = "links"


class ExpansionTerm(msgspec.Struct, frozen=True, array_like=True):
    """A word that was not typed, and its weight beside the typed words."""

    word: str
    share: float


class SearchRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One search, with all options. Words are as typed; `extras` come from query expansion."""

    text: str
    n: int = 10
    offset: int = 0
    collection: str | None = None
    all_words: bool = False
    natural: bool = False  # words that stand in more than half of the documents are ignored
    expand: bool = False
    sort: Sort = Sort.RELEVANCE
    recent: bool = False  # new pages first, among pages that match alike
    copies: bool = False  # each copy is a hit of its own
    like: str = ""  # a URL: that page and its copies only
    crowded: bool = False  # do not demote a site's third page and those after it
    related: str = ""  # a URL: pages similar to it; words are then an additional filter
    language: str = ""  # filters from the form, in the query language
    after: str = ""
    before: str = ""
    extras: tuple[ExpansionTerm, ...] = ()
    loose: bool = False  # pages with some of the words are searched, however many there may be with all

    def check(self) -> None:
        """Check that the request is within the bounds."""
        if self.n < 1 or self.offset < 0:
            raise QueryError(message("The offset must be 0 or more, and the number of results 1 or more."))
        if self.n > HITS_MAX:
            raise QueryError(
                message(
                    "At most {most} results are shown at once; ask for the next ones with an offset.", most=HITS_MAX
                )
            )
        if self.offset + self.n > RESULT_DEPTH_MAX:
            raise QueryError(
                message("Only the first {most} results can be shown; make the search narrower.", most=RESULT_DEPTH_MAX)
            )
        if len(self.extras) > EXPANSION_TERMS_MAX:
            raise QueryError(message("At most {most} words can be added to a search.", most=EXPANSION_TERMS_MAX))


class ShardStatistics(msgspec.Struct, array_like=True):
    """Counts of one shard, for global BM25. `documents`: searchable ones; `length`: their terms. `written`: documents
    including those deleted since the last merge; `counts`: how many of these contain each term, by field."""

    documents: Count = 0
    written: Count = 0
    length: Count = 0
    counts: dict[str, dict[str, Count]] = {}
    parts: Annotated[int, Meta(ge=0, le=SHARDS_MAX)] = 0  # of an index whose parts several machines own; 0: no such
    complete: Annotated[list[Count], Meta(max_length=SHARDS_MAX)] = []  # those that are here with all their pages

    def add(self, other: "ShardStatistics") -> None:
        self.documents += other.documents
        self.written += other.written
        self.length += other.length
        self.parts = max(self.parts, other.parts)
        self.complete = [*self.complete, *other.complete]
        for field, counts in other.counts.items():
            mine = self.counts.setdefault(field, {})
            for term, count in counts.items():
                mine[term] = mine.get(term, 0) + count

    def frequency(self, field: str, term: str) -> int:
        return self.counts.get(field, {}).get(term, 0)


def sum_statistics(several: Iterable[ShardStatistics]) -> ShardStatistics:
    """The sum of all statistics. A single one is returned as the same object: its shard may recognise it."""
    each = list(several)
    if len(each) == 1:
        return each[0]
    overall = ShardStatistics()
    for one in each:
        overall.add(one)
    return overall


PartNumbers = Annotated[list[Annotated[int, Meta(ge=1, le=SHARDS_MAX)]], Meta(max_length=SHARDS_MAX)]


class ShardParts(msgspec.Struct, frozen=True, array_like=True):
    """The parts that a shard has, of an index whose parts several machines own; of no such index it is 0 parts."""

    of: Annotated[int, Meta(ge=0, le=SHARDS_MAX)] = 0
    complete: PartNumbers = []
    building: PartNumbers = []  # those that do not have all pages yet


class Candidate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document that matches. `place` is its address in the snapshot of the block; for the fields that identify
    copies, see `index/schema.py`.
    """

    score: float
    id: Annotated[UrlId, Meta(min_length=16, max_length=16)]
    in_links: int
    place: DocumentAddress
    content: int | None
    simhash: int | None
    headline: int | None
    url_length: int
    site: int
    canonical: int | None = None
    partial: bool = False  # it holds only some of the words


class CandidateBlock(msgspec.Struct, frozen=True, array_like=True):
    """Matches of a shard, highest score first, with the `total` of all matches; `moment` is the snapshot number that
    `show` needs. `whole`: the matches that hold all words of a query with several; None: there is no difference.
    """

    moment: int
    total: Count
    candidates: Annotated[list[Candidate], Meta(max_length=MATCHES_MAX)]
    whole: Count | None = None
    is_whole: bool = False  # only matches with all words were searched


class HitDetails(msgspec.Struct, frozen=True, array_like=True):
    """The displayed fields of a candidate."""

    url: str
    title: str
    snippet: str
    date: str
    language: str
    type: str
    site: str
    declared: tuple[DeclaredEntity, ...] = ()
    date_kind: DateKind = "seen"
    full_title: str = ""  # if it is another than the shown one
    alternates: tuple[tuple[str, str], ...] = ()  # hreflang and URL, indexed or not


class ScorePart(msgspec.Struct, frozen=True, array_like=True):
    """One part of a score: of a word in the text, in the title, of a pair of words; or a factor of the sum.

    `kind` is text, template, title, pair, added, form, links, listing, recent, curated or site.
    """

    kind: str
    what: str
    value: float


class Shard(Protocol):
    """One searchable index. Methods raise `TarrafaError`s; an unreachable shard raises `ShardUnavailable`.

    A new method costs, beside its body in `LocalShard`, one line in `RemoteShard` and one in `PartitionedShard`.
    """

    @property
    def name(self) -> str: ...

    def documents(self) -> Count:
        """The number of documents that can be found now: one for each URL in each collection."""

    def count_urls(self) -> Count:
        """The number of URLs that can be found now: each counts once, in however many collections it is."""

    def parts(self) -> ShardParts:
        """The parts that it has now, where several machines own the parts of one index."""

    def statistics(self, request: SearchRequest) -> ShardStatistics:
        """The statistics that must be summed over all shards so that they score as one index."""

    def top_matches(self, request: SearchRequest, overall: ShardStatistics, limit: Limit) -> CandidateBlock:
        """The first `limit` matches, in the order of their scores. Fewer are the beginning of more."""

    def show(self, request: SearchRequest, moment: int, places: DocumentAddresses) -> list[HitDetails]:
        """The displayed fields of these matches."""

    def find_urls(self, request: SearchRequest, ids: Ids) -> CandidateBlock:
        """The documents of these URLs, whatever their text, in this order; as many as exist."""

    def explain_score(self, request: SearchRequest, overall: ShardStatistics, url: str) -> list[ScorePart]:
        """The parts of the score that a URL has for this request: addends, then factors. Empty: it does not match."""

    def complete(self, beginning: Word, before: PrecedingText, limit: WordLimit) -> Completions:
        """The words with this prefix, as written, the likeliest first: with the number of documents that hold them
        (among those that match all of `before`, unless it is empty), and above all numbers for words that directly
        follow the last word before. Without a prefix, only these.
        """

    def similar_words(self, word: Word, limit: WordLimit) -> Spellings:
        """The word itself and words of similar spelling, with the edit distance and the number of documents that hold
        them, the likeliest first. A split into two words contains a space.
        """

    def expansion_terms(
        self, request: SearchRequest, overall: ShardStatistics, pages: Limit, limit: WordLimit
    ) -> WeightedWords:
        """The words that distinguish the best pages from others, as written, with their evidence; or the words of the
        page in `related`.
        """


class OwnedShard(Shard, Protocol):
    """A shard that has parts of an index whose parts several machines own."""

    def restricted(self, numbers: Sequence[int]) -> Shard:
        """The same shard with these parts only. It shows matches that the whole shard has found, and the reverse."""
