"""Search request and Shard protocol, with the structs that shards exchange.

A *shard* is one index with its graph, in this process or behind a URL. A question goes to every shard twice: first
`statistics` (how many documents, how many of them hold each term), then, with the sums of all of them, `best`. `show`
makes hits of the few that are looked at. Promises: the shapes of that conversation, the same for every shard, with
the bounds of what comes from another machine: what is annotated here is what `conversation` lets through. Knows
nothing of tantivy, HTTP or HTML.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta

from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.model import DeclaredEntity, UrlId

HITS_MAX = 100  # per answer
RESULT_DEPTH_MAX = 1_000
BLOCK_MATCHES = 100  # matches that are ranked together
MATCHES_MAX = 2_000  # matches, however few hits they make: 40 ms
EXPANSION_TERMS_MAX = 100
SHARD_WORDS_MAX = 100  # words that a shard tells at once
BEFORE_CHARS_MAX = 1_000

Count = Annotated[int, Meta(ge=0)]
DocumentAddress = tuple[Annotated[int, Meta(ge=0, lt=1 << 32)], Annotated[int, Meta(ge=0, lt=1 << 32)]]
DocumentAddresses = Annotated[list[DocumentAddress], Meta(max_length=HITS_MAX)]
Ids = Annotated[list[Annotated[UrlId, Meta(min_length=16, max_length=16)]], Meta(max_length=BLOCK_MATCHES)]
Limit = Annotated[int, Meta(ge=1, le=MATCHES_MAX)]
Word = Annotated[str, Meta(max_length=100)]
PrecedingText = Annotated[str, Meta(max_length=BEFORE_CHARS_MAX)]
WordLimit = Annotated[int, Meta(ge=1, le=SHARD_WORDS_MAX)]
Completions = Annotated[list[tuple[Word, Count]], Meta(max_length=SHARD_WORDS_MAX)]
Spellings = Annotated[list[tuple[Word, Count, Count]], Meta(max_length=SHARD_WORDS_MAX)]
WeightedWords = Annotated[list[tuple[Word, float]], Meta(max_length=SHARD_WORDS_MAX)]


class Sort(StrEnum):
    """What stands first."""

    RELEVANCE = "relevance"
    DATE = "date"
    LINKS = "links"


class ExpansionTerm(msgspec.Struct, frozen=True, array_like=True):
    """A word that nobody typed, and what it counts for beside those that were."""

    word: str
    share: float


class SearchRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """One search, with all that the person chose. Words are as typed; `extras` were found by expansion."""

    text: str
    n: int = 10
    offset: int = 0
    collection: str | None = None
    all_words: bool = False
    natural: bool = False  # words that stand in more than half of the documents are not asked for
    expand: bool = False
    sort: Sort = Sort.RELEVANCE
    recent: bool = False  # new pages first, among those that match alike
    copies: bool = False  # each copy is a hit of its own
    like: str = ""  # a URL: that page and its copies only
    crowded: bool = False  # do not hold back a site's third page and those after it
    related: str = ""  # a URL: pages like that one; words are a further condition then
    language: str = ""  # conditions chosen beside the text, in the words of the query language
    after: str = ""
    before: str = ""
    extras: tuple[ExpansionTerm, ...] = ()

    def check(self) -> None:
        """What is asked must be within the bounds."""
        if self.n < 1 or self.offset < 0:
            raise QueryError(message("Results are counted from 0 on, and at least one must be asked for."))
        if self.n > HITS_MAX:
            raise QueryError(
                message(
                    "At most {most} results are shown at once; ask for the next ones with an offset.",
                    most=HITS_MAX,
                )
            )
        if self.offset + self.n > RESULT_DEPTH_MAX:
            raise QueryError(
                message(
                    "Only the first {most} results can be shown; make the search narrower.",
                    most=RESULT_DEPTH_MAX,
                )
            )
        if len(self.extras) > EXPANSION_TERMS_MAX:
            raise QueryError(
                message(
                    "At most {most} words can be added to a search.",
                    most=EXPANSION_TERMS_MAX,
                )
            )


class ShardStatistics(msgspec.Struct, array_like=True):
    """How many documents there are, and how many were written, with those deleted since the last merge; how many terms
    the former have together, and how many of the latter hold each term of a field."""

    documents: Count = 0
    written: Count = 0
    length: Count = 0
    counts: dict[str, dict[str, Count]] = {}

    def add(self, other: "ShardStatistics") -> None:
        self.documents += other.documents
        self.written += other.written
        self.length += other.length
        for field, counts in other.counts.items():
            mine = self.counts.setdefault(field, {})
            for term, count in counts.items():
                mine[term] = mine.get(term, 0) + count

    def frequency(self, field: str, term: str) -> int:
        return self.counts.get(field, {}).get(term, 0)


def sum_statistics(several: Iterable[ShardStatistics]) -> ShardStatistics:
    """What all know together. What one knows alone is handed back as it is: it may recognise it."""
    each = list(several)
    if len(each) == 1:
        return each[0]
    together = ShardStatistics()
    for one in each:
        together.add(one)
    return together


class Candidate(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A document that matches. `score` ranks it within its BLOCK; `order` is what the index found it by, and tells
    which block that is. `place` finds it again in the block's moment; what tells its copies, see `schema`."""

    score: float
    id: Annotated[UrlId, Meta(min_length=16, max_length=16)]
    in_links: int
    place: DocumentAddress
    content: int | None
    simhash: int | None
    headline: int | None
    url_length: int
    site: int
    order: float


class CandidateBlock(msgspec.Struct, frozen=True, array_like=True):
    """Matches from a shard, those with the highest `order` first, `total` of all there are; `moment` is what `show`
    wants to hear."""

    moment: int
    total: Count
    candidates: Annotated[list[Candidate], Meta(max_length=MATCHES_MAX)]


class HitDetails(msgspec.Struct, frozen=True, array_like=True):
    """What is shown of a candidate."""

    url: str
    title: str
    snippet: str
    updated: str
    language: str
    type: str
    site: str
    declared: tuple[DeclaredEntity, ...] = ()


class ScorePart(msgspec.Struct, frozen=True, array_like=True):
    """One part of a score: of a word in the text, in the title, of a pair of words; or what the sum is multiplied by.

    `kind` is text, title, pair, added, links, recent or curated."""

    kind: str
    what: str
    value: float


class Shard(Protocol):
    """One part of what can be searched. Methods raise `TarrafaError`s; a shard that is away raises `ShardAway`.

    A method more costs, beside its own body in `LocalShard`, a line in `RemoteShard` and one in `Joined`.
    """

    @property
    def name(self) -> str: ...

    def documents(self) -> Count:
        """How many documents can be found now."""

    def statistics(self, question: SearchRequest) -> ShardStatistics:
        """What it must know from all shards together to score as one."""

    def top_matches(self, question: SearchRequest, together: ShardStatistics, limit: Limit) -> CandidateBlock:
        """The first `limit` matches."""

    def show(self, question: SearchRequest, moment: int, places: DocumentAddresses) -> list[HitDetails]:
        """What a person sees of these."""

    def find_urls(self, question: SearchRequest, ids: Ids) -> CandidateBlock:
        """The documents of these URLs, whatever they say, in this order; as many as there are."""

    def explain_score(self, question: SearchRequest, together: ShardStatistics, url: str) -> list[ScorePart]:
        """The parts of the score that a URL has for this question: a sum, then factors. Empty: it does not match."""

    def complete(self, beginning: Word, before: PrecedingText, limit: WordLimit) -> Completions:
        """The words that begin so, as written, with how many documents hold them: of those that hold all that `before`
        asks for, if it asks for anything. The most frequent first."""

    def similar_words(self, word: Word, limit: WordLimit) -> Spellings:
        """The word itself and those that are nearly written so, with how many letters differ and how many documents
        hold them, the likeliest first. What is two words to others, comes with a space."""

    def expansion_terms(
        self, question: SearchRequest, together: ShardStatistics, pages: Limit, limit: WordLimit
    ) -> WeightedWords:
        """Words that tell the best so many pages from others, as written, with how much they stand there; or those of
        the page that others are to be `related` to."""
