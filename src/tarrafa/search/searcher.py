"""Here is a question: give me ten hits.

Promises: the same question on the same commits gives the same hits in the same order, page after page, no hit twice and
none lost, from one shard or from many. A URL that several collections hold is one hit, and so are pages that say the
same (`copies`), unless all are asked for. What cannot be asked is one `QueryError`; no index yet is one `DataError`. A
shard that does not answer in time is named, and the others answer without it.
Knows nothing of HTML, JSON or terminals.

The matches of all shards are put together in the order in which their indexes found them, and cut into blocks of BLOCK
(`merging`). Within a block the best stand first, copies are made one, and a site's third page and those after it are
put behind those of others (`crowd`): nothing is hidden, and the first page shows more than one voice. For those who
page on, or when copies made one hit of many, the next blocks follow.

`total` counts the pages that match, less those that were found to be copies on the way to the hits asked for. It is
exact as soon as all matches have been looked at (up to BLOCK of them: at once), and too high by the copies further down
before. Where LOOKED_MAX matches do not make enough hits, it is the number of those that they make: no others can be
shown. `copies` likewise counts what was met on the way.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import TypeVar

from msgspec.structs import replace

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, QueryError, ShardAway, TarrafaError
from tarrafa.index import schema, shards
from tarrafa.index.analysis import fold
from tarrafa.index.reader import IndexReader
from tarrafa.model import Hit, SearchResult, ShardReport, UrlId
from tarrafa.parse.url import canonical, url_id
from tarrafa.search import expansion, spelling, suggesting
from tarrafa.search.copies import Group, Groups, Ranked
from tarrafa.search.curation import Curation
from tarrafa.search.expansion import Evidence
from tarrafa.search.joined import here
from tarrafa.search.local import PATIENCE_S
from tarrafa.search.matching import common_words, held_by, of_page, saying, wanted, wanted_of
from tarrafa.search.merging import in_order, merged
from tarrafa.search.query import is_condition, loosened, parse
from tarrafa.search.question import (
    BLOCK,
    EXTRAS_MAX,
    LOOKED_MAX,
    TOLD_MAX,
    Block,
    Extra,
    Part,
    Question,
    Shard,
    Shown,
    Sort,
    Statistics,
)  # fmt: skip
from tarrafa.search.snippet import Pieces, marked
from tarrafa.search.spelling import Correction, Near, Speller
from tarrafa.search.suggesting import Beginning, beginning_of, gone_on
from tarrafa.search.withheld import Withheld, less

THREADS_PER_SHARD = 8
NOTHING = Question("")
ALIKE = 8  # words that are nearly written so
PATIENT_S = 5.0  # with a vocabulary, for those who ask only once
PER_SITE = 2  # hits of one site that keep their place in a block

Answer = TypeVar("Answer")


class Searcher:
    """Stays open over many questions, in any number of threads."""

    def __init__(self, shards: Sequence[Shard], curation: Curation | None = None) -> None:
        self._shards, self._curation = list(shards), curation
        self._pool = ThreadPoolExecutor(THREADS_PER_SHARD * len(self._shards)) if len(self._shards) > 1 else None

    @classmethod
    def at(cls, data: DataDirectory, elsewhere: Sequence[Shard] = (), patience_s: float = PATIENCE_S) -> "Searcher":
        """Over the index of a data directory and shards elsewhere; where there are no data, over those alone."""
        own = [here(data, patience_s)] if data.version.exists() or not elsewhere else []
        return cls([*own, *elsewhere], Curation(data))

    @property
    def documents(self) -> int:
        """How many documents can be found now."""
        return sum(self._asking(NOTHING).each(lambda shard: shard.documents()).values())

    def languages(self) -> dict[str, int]:
        """The languages of the pages, with how many there are of each, the most frequent first."""
        anything = Question("lang:pt")  # a condition counts no terms of its own
        counts = self._asking(anything).together().counts.get(schema.LANGUAGE, {})
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def search(self, question: Question) -> SearchResult:
        """The hits from `offset` on, at most `n`."""
        started = perf_counter()
        question.check()
        answer = self._answer(question)
        asking, meant = answer.asking, answer.correction
        hits = asking.hits(asking.found[question.offset : question.offset + question.n])
        time_s = round(perf_counter() - started, 6)
        return SearchResult(
            question.text, asking.total, time_s, hits, meant.text if meant else None, asking.reports(), asking.ignored,
            answer.expanded, asking.question.loose,
        )  # fmt: skip

    def suggest(self, text: str, limit: int = 8) -> list[str]:
        """How a text that is still being typed may go on, the most frequent first; whatever it is, and whatever goes
        wrong, at worst there is nothing to suggest."""
        try:
            beginning = beginning_of(text)
            return self._gone_on(beginning, text, min(limit, TOLD_MAX)) if beginning and limit > 0 else []
        except TarrafaError:
            return []

    def _pinned(self, question: Question) -> list[UrlId]:
        """The pages that those who run the engine put first."""
        narrowed = question.language or question.after or question.before or question.like
        if self._curation is None or question.sort is not Sort.RELEVANCE or narrowed:
            return []
        return [url_id(url) for url in self._curation.rules().pinned(question.text)]

    def why(self, question: Question, url: str) -> list[Part]:
        """How a page came to its score for this question: parts that are added up, and then factors. Empty: it is not
        among the answers."""
        asked = question
        if question.expand or question.related or not self._count(question):
            asked = self._answer(question).asking.question
        return self._asking(asked).why(canonical(url) or url)

    # -- more than what was typed ----------------------------------------------------------------------------------

    def _answer(self, question: Question) -> "_Answer":
        """What is found, by other means if there is nothing else."""
        if question.related:
            return _Answer(self._find(self._related(question)))
        parse(question.text)
        first = self._find(question)
        if question.like:
            return _Answer(first)
        answer = _Answer(first, correction=self._correction(first))
        if not first.total:
            return self._instead(first, answer.correction)
        return self._expanded(answer, first) if question.expand else answer

    def _expanded(self, answer: "_Answer", good: "_Asking") -> "_Answer":
        """The same question with words that go with the best of these pages."""
        extras = self._extras(good, wanted(parse(good.question.text)), expansion.WORDS, expansion.SHARE)
        if not extras:
            return answer
        asked = replace(answer.asking.question, extras=extras)
        return _Answer(self._find(asked, answer.asking), [extra.word for extra in extras], answer.correction)

    def _instead(self, first: "_Asking", correction: Correction | None) -> "_Answer":
        """Nothing was found: another spelling, else some of the words, else words that go with them elsewhere."""
        question = first.question
        if correction is not None:
            return _Answer(self._find(replace(question, text=correction.text), first), correction.words, correction)
        query = parse(question.text, question.all_words)
        asked = replace(question, loose=loosened(query) != query)
        if asked.loose and (some := self._find(asked, first)).total:
            return _Answer(some)
        if not query.texts or not any(is_condition(node) for _, node in query.parts):
            return _Answer(first)
        anywhere = self._find(replace(asked, text=" ".join(query.texts), n=expansion.PAGES, offset=0), first)
        answer = self._expanded(_Answer(first), anywhere) if anywhere.total else _Answer(first)
        return answer if answer.asking.total else _Answer(first)

    def _related(self, question: Question) -> Question:
        """The words of a page, as a question."""
        url = canonical(question.related) or question.related
        asking = self._asking(replace(question, related=url))
        if not any(
            block.candidates for block in asking.each(lambda shard: shard.find(question, [url_id(url)])).values()
        ):
            raise QueryError(f"{url[:200]}: this page is not indexed, so nothing can be found that is like it.")
        own = wanted(parse(question.text)) if question.text.strip() else frozenset()
        return replace(asking.question, extras=self._extras(asking, own, expansion.RELATED_WORDS, 1.0))

    def _extras(self, good: "_Asking", own: frozenset[str], limit: int, share: float) -> tuple[Extra, ...]:
        """The words that tell the best pages of an answer, or the page that others are to be like."""
        told = expansion.together(good.speaking(expansion.PAGES, expansion.TOLD), own)
        some = tuple(Extra(word, 1.0) for word in list(told)[:EXTRAS_MAX])
        counts = self._asking(replace(good.question, extras=some), good).together()
        return expansion.chosen({extra.word: told[extra.word] for extra in some}, counts, limit, share)

    def _correction(self, first: "_Asking") -> Correction | None:
        """Another spelling, where next to nothing is found or a word is not known."""
        question = first.question

        def alike(word: str) -> list[Near]:
            answers = first.each(lambda shard: shard.alike(fold(word), ALIKE))
            return spelling.merged(word, answers.values(), ALIKE)

        def count(text: str, all_words: bool) -> int:
            with suppress(QueryError):
                return self._count(replace(question, text=text, all_words=all_words or question.all_words), first)
            return 0

        def documents(word: str, name: str) -> int:
            return held_by(word, first.known, schema.TITLE if name else schema.ALL)

        return Speller(question.text, first.total, documents, alike, count).correction()

    def _gone_on(self, beginning: Beginning, text: str, limit: int) -> list[str]:
        asking, before = self._asking(NOTHING), beginning.before
        checked = not beginning.is_plain
        try:
            parse(before)
        except QueryError:  # nothing by itself: a sign, or only what is to be left out
            checked, before = checked or bool(before.strip()), ""
        answers = asking.each(lambda shard: shard.complete(beginning.typed, before, limit))
        words = suggesting.merged(beginning.typed, answers.values(), limit)
        found = [said for word, _ in words if (said := gone_on(beginning, word)) != text]
        return [said for said in found if not checked or self._count(Question(said, all_words=True), asking)]

    # -- asking ----------------------------------------------------------------------------------------------------

    def _asking(self, question: Question, before: "_Asking | None" = None) -> "_Asking":
        return _Asking(question, self._shards, self._pool, before.away if before is not None else None)

    def _find(self, question: Question, before: "_Asking | None" = None) -> "_Asking":
        asking = self._asking(question, before)
        asking.find(self._pinned(question))
        return asking

    def _count(self, question: Question, before: "_Asking | None" = None) -> int:
        """How many pages match."""
        return self._asking(question, before).count()


@dataclass(frozen=True, slots=True)
class _Answer:
    """The question that found something in the end, the words that it holds and nobody typed, and what may have been
    meant."""

    asking: "_Asking"
    expanded: list[str] = field(default_factory=list)
    correction: Correction | None = None


class _Asking:
    """One question on its way through the shards. Those that do not answer are asked no more, nor by the questions that
    follow it."""

    def __init__(
        self, question: Question, shards: list[Shard], pool: ThreadPoolExecutor | None, away: dict[int, str] | None
    ) -> None:
        self.question, self._shards, self._pool = question, shards, pool
        self.ignored: list[str] = []
        self.known = Statistics()
        self.total, self.found = 0, list[Group]()
        self.away: dict[int, str] = {} if away is None else away
        self._pinned: set[UrlId] = set()
        self._answers: list[tuple[int, int]] = []  # shard and moment of each answer that candidates came in

    def find(self, pinned: list[UrlId]) -> None:
        """How many there are, and as many groups as are asked for."""
        question = self.question
        together = self.known = self.together()
        where = question.collection
        if where is not None and not together.frequency(schema.COLLECTION, where):
            raise QueryError(f"Nothing is indexed of a collection named {where[:100]!r}.")
        if question.natural and question.text.strip():
            self.ignored = common_words(parse(question.text, question.all_words), together)
        enough = LOOKED_MAX if question.like else question.offset + question.n + bool(question.related)
        self.total, groups = self._look(together, pinned, enough)
        self.found = groups.all
        if question.like:
            self.found = [[one] for one in groups.holding(url_id(canonical(question.like) or question.like))]
            self.total = len(self.found)
        elif question.related:
            own = groups.holding(url_id(question.related))
            self.found = [group for group in groups.all if group is not own]
            self.total -= bool(own)

    def count(self) -> int:
        """How many documents match, copies included."""
        together = self.together()
        return sum(block.total for block in self._best(together, 1).values())

    def speaking(self, pages: int, limit: int) -> list[Evidence]:
        """The words of the best pages, or of the one that others are to be like; each shard tells of its own."""
        if self.question.related:
            return list(self.each(lambda shard: shard.speaking(self.question, self.known, pages, limit)).values())
        own = Counter(self._answers[group[0].answer][0] for group in self.found[:pages])

        def told(number: int) -> Evidence:
            return self._shards[number].speaking(self.question, self.known, own[number], limit)

        return list(self._gather(told, list(own)).values())

    def _begin(self, pinned: list[UrlId]) -> Groups:
        """With these first; what else says the same, is their copy."""
        groups = Groups(apart=self.question.copies and not self.question.like and not self.question.related)
        if pinned:
            answers = self.each(lambda shard: shard.find(self.question, pinned))
            found = {one.candidate.id: one for one in self._merged(answers, BLOCK)}
            block = [found[key] for key in pinned if key in found]
            groups.add(block)
            groups.looked -= len(block)  # those that match are met again
            self._pinned = {group[0].candidate.id for group in groups.all}
        return groups

    def why(self, url: str) -> list[Part]:
        together = self.together()
        answers = self.each(lambda shard: shard.why(self.question, together, url))
        return next((parts for parts in answers.values() if parts), [])

    def together(self) -> Statistics:
        """What all shards together know of the terms."""
        together = Statistics()
        for answer in self.each(lambda shard: shard.statistics(self.question)).values():
            together.add(answer)
        return together

    def hits(self, groups: list[Group]) -> list[Hit]:
        """What is seen of these, each asked of the shard that it came from."""
        wanted: dict[int, list[int]] = {}
        for place, group in enumerate(groups):
            wanted.setdefault(group[0].answer, []).append(place)
        by_shard: dict[int, list[tuple[int, list[int]]]] = {}
        for answer, places in wanted.items():
            number, moment = self._answers[answer]
            by_shard.setdefault(number, []).append((moment, places))

        def shown(number: int) -> dict[int, Hit]:
            hits: dict[int, Hit] = {}
            for moment, places in by_shard[number]:
                found = [groups[place][0].candidate.place for place in places]
                several = self._shards[number].show(self.question, moment, found)
                hits |= {place: self._hit(groups[place], one) for place, one in zip(places, several, strict=True)}
            return hits

        hits: dict[int, Hit] = {}
        for some in self._gather(shown, list(by_shard)).values():
            hits |= some
        return [hits[place] for place in sorted(hits)]

    def _hit(self, group: Group, shown: Shown) -> Hit:
        best = group[0].candidate
        return Hit(
            shown.url, shown.title, shown.snippet, round(best.score, 4), best.in_links, shown.updated, shown.language,
            len(group) - 1, shown.type, shown.site, best.id in self._pinned,
        )  # fmt: skip

    def reports(self) -> list[ShardReport]:
        """Who was asked, and why somebody did not answer; nobody, where there is only one."""
        if self._pool is None:
            return []
        return [ShardReport(shard.name, self.away.get(number, "")) for number, shard in enumerate(self._shards)]

    def _look(self, together: Statistics, pinned: list[UrlId], enough: int) -> tuple[int, Groups]:
        """Block by block, until there are enough groups or nothing is left to look at; the total, and the groups."""
        groups = self._begin(pinned)
        looked, limit = 0, -(-enough // BLOCK) * BLOCK
        while True:
            present = len(self.away)
            answers = self._best(together, limit)
            if looked and len(self.away) > present:  # the blocks of fewer shards are other blocks
                groups, looked = self._begin(pinned), 0
            found = self._merged(answers, limit)
            total = sum(block.total for block in answers.values())
            for start in range(looked, limit, BLOCK):
                block = in_order(found[start : start + BLOCK])
                groups.add(crowd(block) if self._is_crowded() else block)
                if len(groups.all) >= enough:
                    return total - groups.looked + len(groups.all), groups
            if limit >= min(total, LOOKED_MAX):
                return len(groups.all), groups
            looked, limit = limit, min(2 * limit, LOOKED_MAX)

    def _best(self, together: Statistics, limit: int) -> dict[int, Block]:
        return self.each(lambda shard: shard.best(self.question, together, limit))

    def _merged(self, answers: dict[int, Block], limit: int) -> list[Ranked]:
        found = merged(list(answers.values()), limit, len(self._answers))
        self._answers += ((number, block.moment) for number, block in answers.items())
        return found

    def _is_crowded(self) -> bool:
        question = self.question
        return question.sort is Sort.RELEVANCE and not question.crowded and not question.like

    def each(self, ask: Callable[[Shard], Answer]) -> dict[int, Answer]:
        """What each shard answers; at least one does."""
        present = [number for number in range(len(self._shards)) if number not in self.away]
        answers = self._gather(lambda number: ask(self._shards[number]), present)
        if not answers:
            raise ShardAway("; ".join(f"{self._shards[number].name}: {why}" for number, why in self.away.items()))
        return answers

    def _gather(self, ask: Callable[[int], Answer], numbers: list[int]) -> dict[int, Answer]:
        """What these shards answer, all asked at once. Where there are others, one that cannot is only named."""
        if self._pool is None:
            try:
                return {number: ask(number) for number in numbers}
            except ShardAway as error:
                raise ShardAway(f"{self._shards[0].name}: {error}") from None
        asked = {number: self._pool.submit(ask, number) for number in numbers}
        answers: dict[int, Answer] = {}
        for number, future in asked.items():
            try:
                answers[number] = future.result()
            except (ShardAway, DataError) as error:
                self.away[number] = str(error)
        return answers


def crowd(block: list[Ranked]) -> list[Ranked]:
    """A block with the third page of a site and those after it behind the others."""
    seen: Counter[int] = Counter()
    first: list[Ranked] = []
    later: list[Ranked] = []
    for one in block:
        site = one.candidate.site
        seen[site] += 1
        (first if seen[site] <= PER_SITE else later).append(one)
    return first + later


class Marker:
    """Marks a query's words in titles and snippets."""

    def __init__(self, text: str, others: Iterable[str] = ()) -> None:
        """`others` are words that were added to it; the text may be empty then."""
        self._wanted = (wanted(parse(text)) if text.strip() else frozenset()) | wanted_of(others)

    def __call__(self, text: str, language: str) -> Pieces:
        return marked(text, self._wanted, language)


def search(data: DataDirectory, question: Question) -> SearchResult:
    """One question, for those who have only one."""
    return Searcher.at(data, patience_s=PATIENT_S).search(question)


def copies_of(data: DataDirectory, url: str, collection: str | None, limit: int = 10) -> list[str]:
    """The URLs whose page is an exact copy of this URL's page, the shortest first; none where nothing is indexed."""
    parts, curation, identity = shards.parts(data), Curation(data), url_id(canonical(url) or url)
    left_out = [clause for part in parts for clause in Withheld(part, curation).clauses()]
    snapshots = [IndexReader(part).snapshot() for part in parts if schema.exists(part)]
    page = less(of_page(identity, collection), left_out)
    own = [match for snapshot in snapshots for match in snapshot.best(page, BLOCK)[0]]
    contents = {match.content for match in own if match.id == identity and match.content is not None}
    others = {
        match.id: (match, snapshot)
        for snapshot in snapshots
        for match in snapshot.best(less(saying(contents, collection), left_out), LOOKED_MAX)[0]
        if match.id != identity
    }
    first = sorted(others.values(), key=lambda found: (found[0].url_length, found[0].id))[: max(limit, 0)]
    return [snapshot.shown(match.place).url for match, snapshot in first]
