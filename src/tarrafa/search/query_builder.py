"""Builds the tantivy query of a parsed search, with its BM25 weights and filters.

Promises: a word matches all its readings (the language of a query's words is unknown), and they weigh the same: each is
boosted to the rarity that the readings have together, in all shards together. Without that, three French pages would
stand above ten thousand Portuguese ones, because *their* spelling of the word is rare. Readings that no page holds are
left out. A function word (`de`) only adds to the score of pages that another part of the query finds, and 0.3 of its
own. Filters never add to a score; where there are only filters, all pages score alike, and links decide. Synonyms can
only add pages and score. Plain words find pages with any of them, and pages with all of them are found by a second
query (`BuiltQuery.whole`), so that they can be counted and raised; where many pages are expected to hold all of them,
only these are searched. A word with signs inside (`f-16`) is found as adjacent words, as one word, and below that by
its parts. Ranking, as measured (docs/decisions): BM25 of the catch-all field, plus 0.3 of the title's, plus 0.3 for
each two words of the query that are as near in the page (adjacent, or with function words alone between them), plus
half of its rarity for each word that the page writes as it is typed, plus 0.1 of the template's. Where two adjacent
words stand in many pages, each of them is no frequent word of its language, and positions would have to be read in all
these pages, only the best matches of a shard gain from them (`BuiltQuery.late`). Knows nothing of hits or snippets.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from math import ceil, log, prod
from typing import NamedTuple, TypeVar, cast

import tantivy
from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.index import schema
from tarrafa.index.document_fields import split_url_id, title_key, url_words
from tarrafa.index.text_analysis import (
    are_frequent,
    compose,
    fold,
    frequent_pairs,
    has_unspaced,
    is_function_word,
    is_unspaced,
    own_entry,
    readings,
    readings_in_a_row,
    words,
)
from tarrafa.model import UrlId
from tarrafa.search.global_bm25 import (
    RecordingTermStatistics,
    Terms,
    TermStatistics,
    document_frequency,
)
from tarrafa.search.query_parser import QueryFilter, QueryGroup, QueryNode, QueryPrefix, QueryText, Sign, is_condition
from tarrafa.search.request import ExpansionTerm

TITLE_SHARE = 0.3
PAIR_SHARE = 0.3
TEMPLATE_SHARE = 0.1  # of a word that stands only in menus, lists of links or the name of the site
FUNCTION_WORD_SHARE = 0.3  # of a word that only joins others
FORM_SHARE = 0.5  # of a word's rarity: the gain of a page that writes it as it is typed
NAMED_SHARE = 1.5  # of the rarity of all words: the gain of a page whose title is the query
FORMS_MAX = 12  # words whose typed form counts
# Words of a text without spaces that a page must hold which does not hold all of it in a row.
UNSPACED_WORDS_MIN, UNSPACED_SHARE_MIN = 2, 0.5
# Documents of all shards with both of two adjacent words, as many as there would be by chance. With more, positions
# cost more than a second query for the best matches (0.15 ms).
EARLY_PAIR_DOCUMENTS_MAX = 500
# Documents that hold all words, as many as there would be by chance. With more, pages with some are not searched.
WHOLE_DOCUMENTS_MANY = 500
# about the score of a word that stands in every third document: the rarity of a prefix is not counted
PREFIX_SCORE = 1.0
RELATED_WORDS_SHARE = 0.2  # share of the words of a page that a related page must hold
COMMON_SHARE = 0.5  # share of the documents: the natural-language mode ignores words that are in more
BM25_WEIGHT_MAX = 2.2  # times its rarity: the maximum of BM25 for a word (1 + k1, as in tantivy)

Readings = tuple[str, tuple[Terms, ...]]  # a field, and the readings of a text
OccurringReadings = dict[Terms, list[int]]  # with the documents that hold each of their terms
Clauses = list[tuple[TantivyQuery, bool]]  # True: it is costly
Made = TypeVar("Made")
FindLinkingPages = Callable[[str], Iterable[UrlId]]  # the pages that link to a URL
FindSynonyms = Callable[[str], tuple[str, ...]]  # the synonyms of a word or phrase
FindSpellings = Callable[[str], Iterable[str]]  # the vocabulary entries of a folded word with accents
FindSubclasses = Callable[[str], Iterable[str]]  # the classes below a class


def no_synonyms(word: str) -> tuple[str, ...]:
    return ()


def no_subclasses(kind: str) -> tuple[str, ...]:
    return ()


class ScoreComponent(NamedTuple):
    """One addend of a score: its kind, its text and its query."""

    kind: str
    what: str
    query: TantivyQuery
    most: float = 0.0  # maximum gain of a text; 0: independent of text lengths
    is_late: bool = False  # counts for the best matches only


class SignedForm(NamedTuple):
    """A word with signs (`.net`, `f-16`), and what a page gains that writes it so."""

    word: str
    gain: float


class _TextClauses(NamedTuple):
    """What finds a word or phrase, as far as documents hold it, and whether some shard may have any."""

    content: TantivyQuery | None
    may_occur: bool


class _Gains(NamedTuple):
    """What adds to the scores of pages: words in titles, words as they are typed, and neighbours."""

    titles: list[TantivyQuery]
    forms: list[TantivyQuery]
    pairs: list[TantivyQuery]

    def for_forms(self, must: list[tuple[Occur, TantivyQuery]]) -> TantivyQuery:
        """The pages with all of these parts, and what they gain from forms, each form by itself: of a union, tantivy
        reads all documents between the matches, which took four times as long as all else.
        """
        query = must[0][1] if len(must) == 1 else TantivyQuery.boolean_query(must)
        for form in self.forms:
            query = TantivyQuery.boolean_query([(Occur.Must, query), (Occur.Should, form)])
        return query


class BuiltQuery(NamedTuple):
    """`matches` finds the documents and scores them; each of `late` adds to the scores of the best of them. (As one
    union they would be five times as slow: tantivy reads the positions of all documents between those wanted.) So does
    each of `signed`. `whole` finds those of the documents that hold all words, with the same scores; None: all do
    (`is_whole`), or there is one word only. `lacks`: no document holds all words, because one occurs nowhere; `whole`
    is then about the others.
    """

    matches: TantivyQuery
    late: tuple[TantivyQuery, ...] = ()
    whole: TantivyQuery | None = None
    lacks: bool = False
    is_whole: bool = False
    signed: tuple[SignedForm, ...] = ()


class QueryBuilder:
    """Builds queries for one shard. `overall` counts in all shards, `local` in this one."""

    def __init__(
        self,
        local: TermStatistics,
        overall: TermStatistics,
        linking: FindLinkingPages,
        synonyms: FindSynonyms = no_synonyms,
        subclasses: FindSubclasses = no_subclasses,
        spellings: FindSpellings = no_synonyms,
    ) -> None:
        self._local, self._overall = local, overall
        self._here, self._everywhere = local.written, overall.written
        self._linking, self._synonyms, self._subclasses = linking, synonyms, subclasses
        self._spellings = spellings
        self._occurring_readings: dict[Readings, tuple[OccurringReadings, dict[str, int]]] = {}
        self._made: dict[tuple[object, ...], object] = {}
        self._recording = overall if isinstance(overall, RecordingTermStatistics) else None

    def build(
        self,
        query: QueryGroup,
        collection: str | None = None,
        natural: bool = False,
        extras: Iterable[ExpansionTerm] = (),
        related: bool = False,
        loose: bool = False,
    ) -> BuiltQuery:
        """The query that finds and scores the documents. With `related`, the extras are searched for and the query is
        an additional filter, which may be empty. `loose`: pages with some of the words are always searched.
        """
        query = self._natural(query) if natural else query
        content = _content_of(query)
        pairs = self._pairs(content)
        parts = self._conditions(query, 0.0 if content.parts or related else 1.0)
        added = [clause for _, clause in self._added(extras)]
        if related:
            parts.append((Occur.Must, _related_query(added)))
        if collection is not None:
            self._overall.frequency(schema.COLLECTION, collection)  # so that the statistics phase counts it
            parts.append((Occur.Must, filter_query(schema.COLLECTION, collection)))
        late = tuple(clause for _, clause, is_late in pairs if is_late)
        if not content.parts:
            return BuiltQuery(TantivyQuery.boolean_query(parts))
        titles = [clause for _, clause in (*self._titles(content), *self._named(content))]
        forms = [clause for _, clause in self._forms(content)]
        gains = _Gains(titles, forms, [clause for _, clause, is_late in pairs if not is_late])
        signed = tuple(self._signed(content))
        needed, lacks = self._needed(content) if not related else ([], False)
        whole = self._whole(content, needed, added, gains) if needed else []
        if whole and not lacks and not loose and self._are_many(needed):
            return BuiltQuery(TantivyQuery.boolean_query([*whole, *parts]), late, is_whole=True, signed=signed)
        found = self._found(_with_parts(content), [] if related else added, gains)
        together = TantivyQuery.boolean_query([*whole, *parts]) if whole else None
        several = [*parts, *found]
        matches = found[0][1] if len(several) == 1 else TantivyQuery.boolean_query(several)
        return BuiltQuery(matches, late, together, lacks, signed=signed)

    def _needed(self, content: QueryGroup) -> tuple[list[QueryNode], bool]:
        """The parts of plain words that a page should hold all of, without function words; and whether one occurs
        nowhere. None: there is only one, or signs say what is needed.
        """
        if any(sign is not Sign.SHOULD for sign, _ in content.parts):
            return [], False
        speaking = [node for _, node in content.parts if not _is_joining(node)] or [node for _, node in content.parts]
        occurring = [node for node in speaking if self._may_occur(node)]
        is_tiered = len(occurring) > 1 or any(map(is_compound, occurring))
        return occurring if is_tiered else [], 0 < len(occurring) < len(speaking)

    def _whole(
        self, content: QueryGroup, needed: list[QueryNode], added: list[TantivyQuery], gains: "_Gains"
    ) -> list[tuple[Occur, TantivyQuery]]:
        """The pages with all needed parts; the other parts add to the score."""
        must = [(Occur.Must, self._node(node) or TantivyQuery.empty_query()) for node in needed]
        others = [node for _, node in content.parts if node not in needed]
        others += [_parts_of(node) for node in needed if is_compound(node)]
        some = [clause for node in others if (clause := self._additional(node)) is not None]
        several = [*some, *added, *gains.titles, *gains.pairs]
        return [(Occur.Must, gains.for_forms(must)), *((Occur.Should, clause) for clause in several)]

    def _are_many(self, needed: list[QueryNode]) -> bool:
        """Whether all of these words are in more documents of all shards than can be shown, if they are independent."""
        if not all(isinstance(node, QueryText) for node in needed):
            return False
        least = float(self._everywhere)
        for word in (word for node in needed for word in words(_text(node))):
            least *= document_frequency(word, self._overall) / max(self._everywhere, 1)
            if least < WHOLE_DOCUMENTS_MANY:
                return False
        return True

    def _forms(self, content: QueryGroup) -> list[tuple[str, TantivyQuery]]:
        """The words as they are typed, in pages that write them so: not as another word of the same stem."""
        found = {text: form for text in content.texts if (form := self._gains(text)[1]) is not None}
        return list(found.items())[:FORMS_MAX]

    def _form(self, text: str) -> TantivyQuery | None:
        several = words(text)
        if len(several) != 1 or is_function_word(text):
            return None
        entries = [entry for entry in self._entries(several[0]) if self._local.frequency(schema.WORDS, entry)]
        occurring = self._occurring(schema.ALL, readings(text))
        if not entries or not occurring:
            return None
        some = [TantivyQuery.term_query(schema.SCHEMA, schema.WORDS, entry, "basic") for entry in entries]
        return TantivyQuery.const_score_query(_any(some), FORM_SHARE * self._common(occurring))

    def _entries(self, word: str) -> list[str]:
        """The vocabulary entries of a word. Typed without accents it stands for all its spellings, else for itself."""
        small, folded = word.lower(), fold(word)
        return [folded, *self._spellings(folded)] if small == folded else [own_entry(folded, small)]

    def _signed(self, content: QueryGroup) -> list[SignedForm]:
        """The words with signs inside or a dot before them."""
        found = dict[str, SignedForm]()
        for sign, node in content.parts:
            text = _text(node)
            if sign is not Sign.MUST_NOT and text not in found and len(found) < FORMS_MAX and signed_pattern(text):
                occurring = self._occurring(schema.ALL, readings(text))
                found[text] = SignedForm(text, FORM_SHARE * self._common(occurring))
        return [form for form in found.values() if form.gain]

    def score_components(
        self, query: QueryGroup, natural: bool, extras: Iterable[ExpansionTerm]
    ) -> list["ScoreComponent"]:
        """The addends of a score. The score of a page is their sum."""
        content = _content_of(self._natural(query) if natural else query)
        texts = _with_parts(content).texts
        joining = {_text(node) for _, node in self._joining_words(content)}
        shares = [(text, FUNCTION_WORD_SHARE if text in joining else 1.0) for text in texts]
        found = [(text, share, self._in_field(schema.ALL, self._spelled(text))) for text, share in shares]
        template = [(text, share, self._in_template(self._all_readings(text))) for text, share in shares]
        return [
            *(
                ScoreComponent("text", text, _boosted(clause, share), share * self._most(self._all_readings(text)))
                for text, share, clause in found
                if clause is not None
            ),
            *(
                ScoreComponent("template", text, _boosted(_any(clauses), share))
                for text, share, clauses in template
                if clauses
            ),
            *(ScoreComponent("text", f"{text}*", self._prefix(text)) for text in content.prefixes),
            *(ScoreComponent("added", what, clause) for what, clause in self._added(extras)),
            *(ScoreComponent("title", what, clause) for what, clause in self._titles(content)),
            *(ScoreComponent("title", what, clause) for what, clause in self._named(content)),
            *(ScoreComponent("form", what, clause) for what, clause in self._forms(content)),
            *(
                ScoreComponent("pair", " ".join(pair), clause, PAIR_SHARE * self._most(_in_a_row(*pair)), is_late)
                for pair, clause, is_late in self._pairs(content)
            ),
        ]

    def _most(self, alternatives: tuple[Terms, ...]) -> float:
        """The upper bound of what a text gains from these readings."""
        return BM25_WEIGHT_MAX * self._common(self._occurring(schema.ALL, alternatives))

    # -- the parts -------------------------------------------------------------------------------------------------

    def _found(
        self, content: QueryGroup, added: list[TantivyQuery], gains: "_Gains"
    ) -> list[tuple[Occur, TantivyQuery]]:
        """The typed or the added content must match; where some part is required, the added content only adds to the
        score, as gains always do.
        """
        more = [*gains.titles, *gains.forms, *gains.pairs]
        if joining := self._joining_words(content):
            content = QueryGroup(tuple(part for part in content.parts if part not in joining))
            more = [*(clause for _, node in joining if (clause := self._additional(node)) is not None), *more]
            return [(Occur.Must, _any([self._group(content), *added])), *((Occur.Should, one) for one in more)]
        if content.with_sign(Sign.MUST):
            several = [*added, *gains.titles, *gains.pairs]
            required = gains.for_forms([(Occur.Must, self._group(content))])
            return [(Occur.Must, required), *((Occur.Should, one) for one in several)]
        if all(isinstance(node, QueryText) and _is_word(node.text) for _, node in content.parts):
            # A page with the word in its title has the word in `all`. One flat TantivyQuery takes tantivy a quarter
            # less time.
            some = [clause for text in content.texts if (clause := self._content(text)) is not None]
            return [(Occur.Must, _any([*some, *added, *more]))]
        return [(Occur.Must, _any([self._group(content), *added])), *((Occur.Should, one) for one in more)]

    def _joining_words(self, content: QueryGroup) -> list[tuple[Sign, QueryNode]]:
        """The function words among plain words: alone they find nothing, unless no other part occurs anywhere."""
        if any(sign is not Sign.SHOULD for sign, _ in content.parts):
            return []
        joining, others = list[tuple[Sign, QueryNode]](), list[tuple[Sign, QueryNode]]()
        for part in content.parts:
            (joining if _is_joining(part[1]) else others).append(part)
        return joining if any(self._may_occur(node) for _, node in others) else []

    def _may_occur(self, node: QueryNode) -> bool:
        """Whether a part may be found in some shard; only words are looked up."""
        if not isinstance(node, QueryText):
            return True
        return self._clauses_of(node.text).may_occur

    def _natural(self, query: QueryGroup) -> QueryGroup:
        ignored = common_words(query, self._overall)
        kept = (part for part in query.parts if not (isinstance(part[1], QueryText) and part[1].text in ignored))
        return QueryGroup(tuple(kept)) if ignored else query

    def _conditions(self, query: QueryGroup, worth: float) -> list[tuple[Occur, TantivyQuery]]:
        """Required and excluded parts; the first filter scores `worth`, the others nothing."""
        parts = self._must_not(query)
        for sign, node in query.parts:
            if sign is not Sign.MUST_NOT and is_condition(node):
                parts.append(
                    (Occur.Must, TantivyQuery.const_score_query(self._node(node) or TantivyQuery.empty_query(), worth))
                )
                worth = 0.0
        return parts

    def _must_not(self, group: QueryGroup) -> list[tuple[Occur, TantivyQuery]]:
        never = group.with_sign(Sign.MUST_NOT)
        without_synonyms = self
        if never:
            without_synonyms = QueryBuilder(self._local, self._overall, self._linking, subclasses=self._subclasses)
        return [(Occur.MustNot, clause) for node in never if (clause := without_synonyms._node(node)) is not None]

    def _group(self, group: QueryGroup) -> TantivyQuery:
        """The required parts of a group; without any, at least one optional part."""
        must = [(Occur.Must, self._node(node) or TantivyQuery.empty_query()) for node in group.with_sign(Sign.MUST)]
        some = [clause for node in group.with_sign(Sign.SHOULD) if (clause := self._node(node)) is not None]
        if group.least > 1:
            enough = len(some) >= group.least
            return (
                TantivyQuery.boolean_query([(Occur.Should, one) for one in some], group.least) if enough else _any([])
            )
        never = self._must_not(group)
        if must:
            return TantivyQuery.boolean_query([*must, *((Occur.Should, clause) for clause in some), *never])
        return _any(some) if not never else TantivyQuery.boolean_query([(Occur.Must, _any(some)), *never])

    def _node(self, node: QueryNode) -> TantivyQuery | None:
        if isinstance(node, QueryText):
            return self._content(node.text)
        if isinstance(node, QueryGroup):
            return self._group(node)
        if isinstance(node, QueryPrefix):
            return self._prefix(node.text)
        return self._filter(node)

    def _additional(self, node: QueryNode) -> TantivyQuery | None:
        """A part that only adds to the score of pages that others find: a function word adds little."""
        clause = self._node(node)
        return clause if clause is None or not _is_joining(node) else _boosted(clause, FUNCTION_WORD_SHARE)

    def _prefix(self, text: str) -> TantivyQuery:
        if is_unspaced(text):  # a letter anywhere in words of two letters: `parse` asks for no more
            pattern, fields = f".?{text}.?[~.']?", (schema.WORDS, schema.TITLE)
            several = [TantivyQuery.regex_query(schema.SCHEMA, field, pattern) for field in fields]
            return _any([TantivyQuery.const_score_query(one, PREFIX_SCORE) for one in several])
        return TantivyQuery.const_score_query(
            TantivyQuery.regex_query(schema.SCHEMA, schema.WORDS, fold(text) + ".*"), PREFIX_SCORE
        )

    def _added(self, extras: Iterable[ExpansionTerm]) -> list[tuple[str, TantivyQuery]]:
        """Words that were not typed."""
        found = [(extra, self._content(extra.word)) for extra in extras]
        return [(extra.word, _boosted(clause, extra.share)) for extra, clause in found if clause is not None]

    def _content(self, text: str) -> TantivyQuery | None:
        """Pages with this word or phrase anywhere, or with a synonym, or with `email` for `e-mail`; None if there are
        none.
        """
        return self._clauses_of(text).content

    def _clauses_of(self, text: str) -> _TextClauses:
        synonyms = self._synonyms(text)
        return self._once(("text", text, synonyms), lambda: self._text_clauses(text, synonyms))

    def _text_clauses(self, text: str, synonyms: tuple[str, ...]) -> _TextClauses:
        spelled = self._spelled(text)
        clauses = [*self._weighed(schema.ALL, spelled), *self._in_template(self._all_readings(text))]
        may_occur = any(self._occurring(field, spelled) for field in (schema.ALL, schema.TEMPLATE))
        return _TextClauses(_any(clauses) if clauses else None, may_occur)

    def _gains(self, text: str) -> tuple[list[tuple[str, TantivyQuery]], TantivyQuery | None]:
        """A word or phrase in titles, and as it is typed: both add to the scores of pages."""
        return self._once(("gains", text), lambda: (self._title(text), self._form(text)))

    def _once(self, key: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What is made for this key in this query; by the counts of one shard alone, in all its queries."""
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = make() if self._recording is None else self._recording.remember(key, make)
        return cast(Made, made)

    def _in_template(self, alternatives: tuple[Terms, ...]) -> list[TantivyQuery]:
        """The same in templates. What is in those of most pages finds the pages that hold it themselves, if any do."""
        counts = self._occurring(schema.TEMPLATE, alternatives).values()
        if not counts:
            return []
        if max(map(min, counts)) > COMMON_SHARE * self._everywhere and self._occurring(schema.ALL, alternatives):
            return []
        return self._weighed(schema.TEMPLATE, alternatives, TEMPLATE_SHARE)

    def _spelled(self, text: str) -> tuple[Terms, ...]:
        """All readings of a word or phrase; of a word with signs inside also those without them."""
        own = self._all_readings(text)
        return (*own, *readings("".join(words(text)))) if is_signed(text) else own

    def _all_readings(self, text: str) -> tuple[Terms, ...]:
        """All readings of a word or phrase, and of its synonyms."""
        synonyms = self._synonyms(text)
        return tuple(reading for one in (text, *synonyms) for reading in readings(one)) if synonyms else readings(text)

    def _titles(self, content: QueryGroup) -> list[tuple[str, TantivyQuery]]:
        """The same words in the title alone. Of a phrase, each word: titles are short enough."""
        return [title for text in content.texts for title in self._gains(text)[0]]

    def _title(self, text: str) -> list[tuple[str, TantivyQuery]]:
        return [
            (word, clause)
            for word in words(text)
            for clause in self._weighed(schema.TITLE, self._known_readings(word), TITLE_SHARE)
        ]

    def _known_readings(self, word: str) -> tuple[Terms, ...]:
        """The readings that a title may hold: each term there is in `all` too or, of the name of a site, in `template`.
        To look a term up takes 2 us.
        """
        own = readings(word)
        known = (*self._occurring(schema.ALL, own), *self._occurring(schema.TEMPLATE, own))
        return tuple([terms for terms in own if len(terms) > 1 or terms in known])

    def _named(self, content: QueryGroup) -> list[tuple[str, TantivyQuery]]:
        """The pages whose title is the whole query."""
        texts = content.texts
        whole = " ".join(texts)
        key = title_key(whole)
        if not self._local.frequency(schema.NAMED, key):
            return []
        speaking = [text for text in texts if not is_function_word(text)] or texts
        rarity = sum(self._common(self._occurring(schema.ALL, readings(text))) for text in dict.fromkeys(speaking))
        named = TantivyQuery.term_query(schema.SCHEMA, schema.NAMED, key, "basic")
        return [(whole, TantivyQuery.const_score_query(named, NAMED_SHARE * rarity))]

    def _pairs(self, content: QueryGroup) -> list[tuple[tuple[str, str], TantivyQuery, bool]]:
        """Neighbours in the query, as neighbours in the page; True: they are costly."""
        return [
            ((left, right), clause, is_late)
            for left, right, between in _neighbours(content)
            for clause, is_late in self._pair(left, right, between)
        ]

    def _pair(self, left: str, right: str, between: int) -> Clauses:
        key = ("pair", left, right, between)
        return self._once(key, lambda: self._clauses(schema.ALL, _in_a_row(left, right), PAIR_SHARE, between))

    def _weighed(self, field: str, alternatives: tuple[Terms, ...], share: float = 1.0) -> list[TantivyQuery]:
        return [clause for clause, _ in self._clauses(field, alternatives, share)]

    def _clauses(self, field: str, alternatives: tuple[Terms, ...], share: float, between: int = 0) -> Clauses:
        """The readings that occur, each with the boost that sets its rarity to the common one; True: many documents
        hold its terms, and their positions must be read. `between`: so many other words may stand among its terms.
        """
        occurring, found = self._occurring(field, alternatives), Clauses()
        if not occurring:
            return found
        common, frequency = share * self._common(occurring), self._local.frequency
        for terms, counts in occurring.items():
            sought = SoughtPhrase(field, terms) if between else SoughtPhrase.of(field, terms)
            is_counted = self._local is self._overall and sought.terms is terms
            here = counts if is_counted else [frequency(sought.field, term) for term in sought.terms]
            if all(here):
                is_late = len(sought.terms) > 1 and self._together(counts) > EARLY_PAIR_DOCUMENTS_MAX
                found.append((_boosted(sought.query(between), common / _idf(here, self._here)), is_late))
        return found

    def _together(self, counts: list[int]) -> float:
        """How many documents of all shards hold all of these terms, if they have nothing to do with each other."""
        return prod(counts) / float(max(self._everywhere, 1)) ** (len(counts) - 1)

    def _occurring(self, field: str, alternatives: tuple[Terms, ...]) -> OccurringReadings:
        """The readings that some shard holds, with the global document frequency of each of their terms."""
        key, count = (field, alternatives), self._overall.frequency
        known = self._occurring_readings.get(key)
        if known is None:
            counts = {term: count(field, term) for terms in alternatives for term in terms}
            several = ((terms, [counts[term] for term in terms]) for terms in alternatives)
            known = {terms: found for terms, found in several if found and all(found)}, counts
            self._occurring_readings[key] = known
        elif self._recording is not None:
            self._recording.record(field, known[1])
        return known[0]

    def _common(self, occurring: OccurringReadings) -> float:
        """The rarity of these readings, all together and in all shards."""
        return _idf(map(sum, zip(*occurring.values(), strict=False)), self._everywhere)

    def _filter(self, known: QueryFilter) -> TantivyQuery | None:
        """The pages with a property; None if there are none."""
        name, value = known.field, known.value
        if name == "intitle":
            return self._in_field(schema.TITLE, readings(value))
        if name == "inurl":
            return self._in_field(schema.URL, (tuple(url_words(value).split()),))
        if name == "link":
            ids = [split_url_id(key)[0] for key in self._linking(value)]
            return TantivyQuery.term_set_query(schema.SCHEMA, schema.ID_HIGH, ids) if ids else None
        if name in ("after", "before"):
            return _between(int(value), None) if name == "after" else _between(None, int(value) - 1)
        if name == "filetype" and value.endswith("/*"):
            return TantivyQuery.regex_query(schema.SCHEMA, schema.TYPE, _literal(value[:-1]) + ".*")
        return self._declaring(value) if name == "type" else TantivyQuery.term_query(schema.SCHEMA, FIELDS[name], value)

    def _declaring(self, value: str) -> TantivyQuery:
        """The pages that declare an entity of a class or of one below it by the ontology, perhaps with a day."""
        kind, _, day = value.partition(" ")
        kinds = [kind, *(below for below in self._subclasses(kind) if self._local.frequency(schema.KIND, below))]
        if day:
            return _any([_entity_query(one, day) for one in kinds])
        return TantivyQuery.term_set_query(schema.SCHEMA, schema.KIND, kinds)

    def _in_field(self, field: str, alternatives: tuple[Terms, ...]) -> TantivyQuery | None:
        clauses = self._weighed(field, alternatives)
        return _any(clauses) if clauses else None


_signed_word = re.compile(r"\.[^\W_].*[^\W_]|[^\W_].*[^\w\s].*[^\W_]", re.DOTALL).search
_has_sign_inside = re.compile(r"[^\W_][^\w\s]+[^\W_]").search


@lru_cache(1_000)
def signed_pattern(text: str) -> re.Pattern[str] | None:
    """Finds a word with signs inside or a dot before it, and nothing attached, whatever its case; None: no such word.
    The index does not hold signs: they are looked for in the text of the best matches.
    """
    if text.isalnum() or " " in text:  # the pattern would try each end of each beginning
        return None
    found = _signed_word(compose(text))
    if found is None:
        return None
    return re.compile(rf"(?<!\w)(?<!\w[.,]){re.escape(found[0])}(?![.,]?\w)", re.IGNORECASE)


@lru_cache(10_000)
def is_signed(text: str) -> bool:
    """Whether a word has signs inside: `f-16`, `tcp/ip`, `1.000`, `d'água`."""
    return " " not in text and bool(_has_sign_inside(text)) and len(words(text)) > 1


@lru_cache(10_000)
def _is_word(text: str) -> bool:
    """Whether a text is a single word."""
    return len(words(text)) == 1


@lru_cache(10_000)
def _is_run(text: str) -> bool:
    """Whether a text has several words of a script without spaces: 安装软件."""
    return has_unspaced(composed := compose(text)) and len(words(composed)) > 1


def is_compound(node: QueryNode) -> bool:
    """Whether a part is a word with signs inside, or several words without spaces."""
    return isinstance(node, QueryText) and not node.quoted and (is_signed(node.text) or _is_run(node.text))


def _text(node: QueryNode) -> str:
    return node.text if isinstance(node, QueryText) else ""


def _is_joining(node: QueryNode) -> bool:
    return isinstance(node, QueryText) and is_function_word(node.text)


def _parts_of(node: QueryNode) -> QueryNode:
    """The words that a word with signs inside consists of, all of them; of a text without spaces, most of them: nobody
    says where its words begin.
    """
    parts = [QueryText(word) for word in dict.fromkeys(words(_text(node)))]
    if _is_run(_text(node)):
        least = max(UNSPACED_WORDS_MIN, ceil(UNSPACED_SHARE_MIN * len(parts)))
        return QueryGroup(tuple((Sign.SHOULD, part) for part in parts), least)
    return QueryGroup(tuple((Sign.MUST, part) for part in parts))


def _with_parts(content: QueryGroup) -> QueryGroup:
    """Plain words with signs inside or without spaces, or else their parts."""
    if not any(sign is Sign.SHOULD and is_compound(node) for sign, node in content.parts):
        return content
    parts = list[tuple[Sign, QueryNode]]()
    for sign, node in content.parts:
        parts.append((sign, node))
        if sign is Sign.SHOULD and is_compound(node):
            parts.append((sign, _parts_of(node)))
    return QueryGroup(tuple(parts))


def _content_of(query: QueryGroup) -> QueryGroup:
    """The scoring parts of a query, without filters and exclusions."""
    return QueryGroup(tuple(part for part in query.parts if part[0] is not Sign.MUST_NOT and not is_condition(part[1])))


def common_words(query: QueryGroup, counting: TermStatistics) -> list[str]:
    """The plain words that the natural-language mode ignores because they stand nearly everywhere; none, if the query
    has no others.
    """
    plain = [node.text for sign, node in query.parts if sign is Sign.SHOULD and isinstance(node, QueryText)]
    found = [text for text in plain if _is_word(text) and _is_common(text, counting)]
    speaking = [node for sign, node in query.parts if sign is not Sign.MUST_NOT and not is_condition(node)]
    return found if len(found) < len(speaking) else []


def _is_common(word: str, counting: TermStatistics) -> bool:
    return document_frequency(word, counting) > COMMON_SHARE * counting.written


def all_occur(query: QueryGroup, counting: TermStatistics) -> bool:
    """Whether the query is of words and phrases only, and some page holds each word."""
    texts = [node.text for sign, node in query.parts if isinstance(node, QueryText) and sign is not Sign.MUST_NOT]
    is_plain = len(texts) == len(query.parts)
    return is_plain and all(document_frequency(word, counting) for text in texts for word in words(text))


FIELDS = {
    "site": schema.SITE,
    "host": schema.HOST,
    "lang": schema.LANGUAGE,
    "filetype": schema.TYPE,
}


def page_query(key: UrlId, collection: str | None) -> TantivyQuery:
    """The documents of a URL. In theory, another URL whose id begins with the same half matches too."""
    return _numbered(schema.ID_HIGH, [split_url_id(key)[0]], collection)


def contents_query(contents: Iterable[int], collection: str | None) -> TantivyQuery:
    """The documents with one of these contents."""
    return _numbered(schema.CONTENT, list(contents), collection)


def urls_query(ids: Iterable[UrlId]) -> TantivyQuery:
    """The documents of these URLs (see `page_query`)."""
    return TantivyQuery.term_set_query(schema.SCHEMA, schema.ID_HIGH, [split_url_id(key)[0] for key in ids])


def best_ids_query(halves: Iterable[int]) -> TantivyQuery:
    """The documents with these first halves of ids, as a filter for some dozen URLs: ten times as fast as a set of
    terms (0.2 instead of 2 ms for a hundred in 100,000 documents).
    """
    some = [TantivyQuery.term_query(schema.SCHEMA, schema.ID_HIGH, half, "basic") for half in halves]
    return TantivyQuery.const_score_query(_any(some), 0.0)


def _numbered(field: str, numbers: list[int], collection: str | None) -> TantivyQuery:
    found = [(Occur.Must, TantivyQuery.term_set_query(schema.SCHEMA, field, numbers))]
    return TantivyQuery.boolean_query(
        found if collection is None else [*found, (Occur.Must, filter_query(schema.COLLECTION, collection))]
    )


def _idf(counts: Iterable[int], documents: int) -> float:
    """BM25's inverse document frequency, summed over the words of a phrase as tantivy does it."""
    rarity = 0.0
    for count in counts:
        rarity += log(1 + max(documents - count + 0.5, 0.5) / (count + 0.5))
    return rarity


def _in_a_row(left: str, right: str) -> tuple[Terms, ...]:
    """The readings of two words that are two terms."""
    return tuple([terms for terms in readings_in_a_row(left, right) if len(terms) > 1])


def _neighbours(content: QueryGroup) -> Iterator[tuple[str, str, int]]:
    """Each two adjacent single words of a query, and each two that have only function words between them (*reservas de
    petróleo*), with the number of these.
    """
    plain = [text if _is_word(text := _text(node)) else "" for _, node in content.parts]
    last, place_of_last = "", 0  # the last word that is no function word, and nothing else since
    for place, (left, right) in enumerate(pairwise(plain), 1):
        if left and right:
            yield left, right, 0
        if not left or not is_function_word(left):
            last, place_of_last = left, place - 1
        elif last and right and not is_function_word(right):
            yield last, right, place - place_of_last - 1


class SoughtPhrase(NamedTuple):
    """The field in which a reading is searched, and the adjacent terms there."""

    field: str
    terms: Terms

    @classmethod
    def of(cls, field: str, terms: Terms) -> "SoughtPhrase":
        by_pairs = field == schema.ALL and len(terms) > 1 and are_frequent(terms)
        return cls(schema.PAIRS, tuple(frequent_pairs(terms))) if by_pairs else cls(field, terms)

    def query(self, between: int = 0) -> TantivyQuery:
        """`between`: so many other terms may stand among these."""
        if len(self.terms) == 1:
            return TantivyQuery.term_query(schema.SCHEMA, self.field, self.terms[0], "freq")
        return TantivyQuery.phrase_query(schema.SCHEMA, self.field, [*self.terms], between)


def _boosted(clause: TantivyQuery, boost: float) -> TantivyQuery:
    return clause if boost == 1.0 else TantivyQuery.boost_query(clause, boost)


def _any(clauses: list[TantivyQuery]) -> TantivyQuery:
    if len(clauses) == 1:
        return clauses[0]
    return (
        TantivyQuery.boolean_query([(Occur.Should, one) for one in clauses]) if clauses else TantivyQuery.empty_query()
    )


def _related_query(clauses: list[TantivyQuery]) -> TantivyQuery:
    """Requires a share of the words: with one word in common, nearly every page would be related to every other."""
    least = max(1, round(RELATED_WORDS_SHARE * len(clauses)))
    return (
        TantivyQuery.boolean_query([(Occur.Should, one) for one in clauses], least)
        if clauses
        else TantivyQuery.empty_query()
    )


def _between(first: int | None, last: int | None) -> TantivyQuery:
    return TantivyQuery.range_query(schema.SCHEMA, schema.DATE, tantivy.FieldType.Integer, first, last)


def _entity_query(kind: str, day: str) -> TantivyQuery:
    """The pages that declare an entity of a type, with a date that compares so: `>=2026-01`."""
    compared = day.rstrip("0123456789-")
    return TantivyQuery.regex_query(
        schema.SCHEMA, schema.KIND, f"{_literal(kind)}@{_days(compared, day[len(compared) :])}.*"
    )


def _days(compared: str, day: str) -> str:
    """A pattern of the prefixes of days before or after a date. A month or a year is compared by its own precision:
    days inside it are neither before nor after it.
    """
    alternatives = [_literal(day)] if "=" in compared else []
    for at, digit in enumerate(day):
        others = (
            "" if digit == "-" else "9876543210"[: 9 - int(digit)] if ">" in compared else "0123456789"[: int(digit)]
        )
        if others and compared != "=":
            alternatives.append(f"{_literal(day[:at])}[{others}]{'.' * (len(day) - at - 1)}")
    return f"({'|'.join(alternatives)})" if alternatives else "[^0-9]"  # no day is before the year 0


_SPECIAL = frozenset(r"\.+*?()|[]{}^$#&-~")  # escaping any other sign is an error, or means something else


def _literal(text: str) -> str:
    """A text as a pattern that matches exactly this text."""
    return "".join(f"\\{letter}" if letter in _SPECIAL else letter for letter in text)


def filter_query(field: str, value: str) -> TantivyQuery:
    """A query that adds nothing to the score."""
    return TantivyQuery.const_score_query(TantivyQuery.term_query(schema.SCHEMA, field, value, "basic"), 0.0)
