"""Spelling correction ("Did you mean"): similar words of the vocabulary, ranked by edit cost and frequency.

Promises: a suggestion finds at least one page, and clearly more than the typed text; signs, quotation marks, filters
and all other words stay as they are. Accents and case never count as a difference. Only words that no page holds are
doubted or, where next to nothing is found, words that few pages hold; words with digits never are. Pure: functions for
looking up words, counting pages and asking shards are arguments. Knows nothing of tantivy.

Candidates come from the crawl's own vocabulary: words at one or two changes, and words that were joined or split by
mistake. The likeliest one has the lowest edit cost, where ten times the documents offset a third of a change (the noisy
channel). Adjacent keys of the keyboard, sounds that Portuguese writes in two ways, doubled and exchanged letters cost
less than other changes, the first letter costs more. Among the three likeliest, the documents that also hold the other
words decide. Of 400 misspellings of words of a real vocabulary, drawn at random, the right word comes first for 88 %, a
word of the same stem for 92 %, and is one of three for 99 %.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from math import log10
from typing import NamedTuple

from tarrafa.index.text_analysis import WORD_CHARS_MAX, compose, fold, word_spans
from tarrafa.search.query_parser import ScoringSpan, scoring_spans
from tarrafa.search.vocabulary import IndexVocabulary

FEW_PAGES = 5  # pages: a search that finds fewer may be misspelt
BETTER_TIMES = 5  # times the pages that the typed text finds
DOUBTED_MAX = 3  # words of a search
TRIED_MAX = 3  # candidates for each
COMPARED_MAX = 60  # similar words whose edit cost is computed
CHARS_MIN = 3
PIECES_MAX = 3
PIECE_CHARS_MIN = 3
PIECE_SHARE_MIN = 0.05  # of the documents: the minimum for a shorter piece, such as "de" and "o"
FREQUENCY_SHARE = 0.35  # of a change: offset by ten times the documents
LIKELY_CHANGE_COST, FIRST_LETTER_COST = 0.8, 0.5  # cost of a likely change; extra cost of the first letter

SimilarWord = tuple[str, int, int]  # a word, how many letters differ, and how many documents hold it
FindSimilarWords = Callable[[str], list[SimilarWord]]
CountPages = Callable[[str, bool], int]  # pages that a text finds; whether they must hold all of its words


def distance_max(word: str) -> int:
    """The maximum edit distance for a word."""
    return 0 if len(word) < CHARS_MIN else 1 if len(word) <= 5 else 2


# -- similar words -----------------------------------------------------------------------------------------------------


def similar_words(vocabulary: IndexVocabulary, word: str, limit: int) -> list[SimilarWord]:
    """The word itself, if it is known, and words of similar spelling, the likeliest first."""
    folded = fold(word)
    own = vocabulary.lookup(folded)
    found = [
        (known.word, distance, known.documents)
        for other, known, distance in vocabulary.similar(folded, distance_max(folded))
        if distance and not any(map(str.isdigit, other))
    ]
    found.sort(key=lambda one: (one[1], -one[2], one[0]))
    best = sorted(found[:COMPARED_MAX] + _split_words(vocabulary, folded), key=partial(likelihood_key, folded))
    return [*([(own.word, 0, own.documents)] if own.documents else []), *best][:limit]


def merge_similar_words(word: str, answers: Iterable[list[SimilarWord]], limit: int) -> list[SimilarWord]:
    """Merge the similar words of several shards, the likeliest first."""
    found: dict[str, SimilarWord] = {}
    for answer in answers:
        for other, distance, documents in answer:
            key = " ".join(map(fold, other.split()))
            known = found.get(key, (other, distance, 0))
            found[key] = (known[0], min(known[1], distance), known[2] + documents)
    return sorted(found.values(), key=lambda one: (one[1] > 0, likelihood_key(fold(word), one)))[:limit]


def likelihood_key(typed: str, candidate: SimilarWord) -> tuple[float, str]:
    """Sort key: the smaller, the likelier."""
    word, _, documents = candidate
    return edit_cost(typed, fold(word.replace(" ", "")), word.count(" ")) - FREQUENCY_SHARE * log10(1 + documents), word


def edit_cost(typed: str, meant: str, spaces: int = 0) -> float:
    """The lowest cost of the changes from one folded word to another: insertions, deletions, substitutions and
    transpositions.
    """
    before: list[float] = []
    row = [float(place) for place in range(len(meant) + 1)]
    for i, letter in enumerate(typed, 1):
        twice, before, row = before, row, [float(i)]
        for j, other in enumerate(meant, 1):
            left_out = before[j] + (LIKELY_CHANGE_COST if typed[i - 2 : i - 1] == letter else 1.0)
            put_in = row[j - 1] + (LIKELY_CHANGE_COST if meant[j - 2 : j - 1] == other else 1.0)
            changed = before[j - 1] + (
                0.0 if letter == other else LIKELY_CHANGE_COST if other in _LIKELY.get(letter, "") else 1.0
            )
            best = min(left_out, put_in, changed)
            if i > 1 and j > 1 and letter == meant[j - 2] and other == typed[i - 2]:
                best = min(best, twice[j - 2] + LIKELY_CHANGE_COST)
            row.append(best)
    return row[-1] + spaces * LIKELY_CHANGE_COST + (FIRST_LETTER_COST if typed[:1] != meant[:1] else 0.0)


def _likely() -> dict[str, str]:
    """The letters that are easily confused: adjacent keys, and sounds with two spellings."""
    pairs = {"sz", "sc", "cs", "cq", "ck", "kq", "gj", "mn", "ei", "ou", "lu", "vw", "xs", "iy", "xz", "zs"}
    rows = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    for row in rows:
        pairs |= {row[place : place + 2] for place in range(len(row) - 1)}
    for above, below in pairwise(rows):
        for place, letter in enumerate(below):
            pairs |= {letter + other for other in above[place : place + 2]}
    found: dict[str, str] = {}
    for one, other in map(tuple, pairs):
        found[one] = found.get(one, "") + other
        found[other] = found.get(other, "") + one
    return found


_LIKELY = _likely()


def _split_words(vocabulary: IndexVocabulary, folded: str) -> list[SimilarWord]:
    """The word split into two words, and into three; of each, the split whose rarest word is the most frequent."""
    most = vocabulary.documents_max
    best: dict[tuple[int, int], tuple[int, tuple[str, ...]]] = {(0, 0): (most, ())}  # by its end and number of pieces
    for end in range(1, len(folded) + 1):
        for start in range(end):
            piece = folded[start:end]
            documents = vocabulary.lookup(piece).documents if piece != folded else 0
            if documents and (len(piece) >= PIECE_CHARS_MIN or documents >= PIECE_SHARE_MIN * most):
                for count in range(PIECES_MAX):
                    if known := best.get((start, count)):
                        one = (min(known[0], documents), (*known[1], piece))
                        best[end, count + 1] = max(best.get((end, count + 1), (0, ())), one)
    found = [best[key] for count in range(2, PIECES_MAX + 1) if (key := (len(folded), count)) in best]
    return [(" ".join(vocabulary.lookup(piece).word for piece in pieces), len(pieces) - 1, n) for n, pieces in found]


# -- a whole text ------------------------------------------------------------------------------------------------------


class TypedWord(NamedTuple):
    """A word of a text, its position, and the number of documents that hold it."""

    start: int
    end: int
    text: str
    within: ScoringSpan
    documents: int

    @property
    def is_plain(self) -> bool:
        return not self.within.quoted and not self.within.sign and not self.within.name


class Correction(NamedTuple):
    """Another text, its words that were not typed, and whether one replaces a word that no page holds."""

    text: str
    words: list[str]
    is_needed: bool


def typed_words(text: str, documents: Callable[[str, str], int]) -> list[TypedWord]:
    """The scoring words of a composed text; `documents` counts the documents that hold a word, in a field if one is
    named.
    """
    return [
        TypedWord(start, end, text[start:end], within, documents(text[start:end], within.name))
        for within in scoring_spans(text)
        for start, end in ((within.start + a, within.start + b) for a, b in word_spans(text[within.start : within.end]))
    ]


class SpellingChange(NamedTuple):
    """A replacement and its position. Several words for one are in quotation marks: they must be adjacent."""

    start: int
    end: int
    text: str
    cost: float

    @property
    def is_sure(self) -> bool:
        """Whether the replacement is known to occur: each single word is, several adjacent words need not be."""
        return not self.text.startswith('"')


class SpellingCorrector:
    """Checks the doubtful words of one text."""

    def __init__(
        self, text: str, found: int, documents: Callable[[str, str], int], alike: FindSimilarWords, count: CountPages
    ) -> None:
        self._text, self._found = compose(text), found
        self._alike, self._count = alike, count
        self._words = typed_words(self._text, documents)

    @property
    def doubtful_words(self) -> list[TypedWord]:
        """The words that may be misspelt."""
        rare = FEW_PAGES if self._found < FEW_PAGES else 1
        return [
            word
            for word in self._words
            if word.documents < rare
            and CHARS_MIN <= len(word.text) <= WORD_CHARS_MAX
            and not any(map(str.isdigit, word.text))
        ][:DOUBTED_MAX]

    def correction(self) -> Correction | None:
        """Another spelling that finds clearly more, if there is one."""
        changes: list[SpellingChange] = []
        unsure = self.doubtful_words
        while unsure:
            word = unsure.pop(0)
            if not changes or changes[-1].end <= word.start:  # else it was joined with the word before
                left_out = [SpellingChange(other.start, other.end, "", 0.0) for other in unsure if not other.documents]
                best = self._best(word, [*changes, *left_out])
                changes += [best] if best is not None else []
        if not changes:
            return None
        text = self._with(changes)
        unknown = {word.start for word in self._words if not word.documents}
        needed = [change for change in changes if not unknown.isdisjoint(range(change.start, change.end))]
        if not self._is_better(text, needed):
            return None
        return Correction(text, [word for one in changes for word in one.text.strip('"').split()], bool(needed))

    def _is_better(self, text: str, needed: list[SpellingChange]) -> bool:
        """Whether the correction finds clearly more; or finds something for a word that matched nothing beside others
        that did.
        """
        if self._count(text, False) >= max(1, BETTER_TIMES * self._found):
            return True
        must = [self._with([one._replace(text=f"+{one.text}")]) for one in needed]
        return self._found > 0 and any(self._count(one, False) for one in must)

    def _best(self, word: TypedWord, others: list[SpellingChange]) -> SpellingChange | None:
        """The likeliest candidate, by the documents that also hold the other words, else by its own frequency."""
        tried = [*self._joined(word), *self._spelled(word)][:TRIED_MAX]
        if len(tried) < 2 and all(change.is_sure for change in tried):
            return tried[0] if tried else None

        def together(change: SpellingChange) -> int:
            several = [*(one for one in others if one.end <= change.start or one.start >= change.end), change]
            return self._count(self._with(several), True)

        counts = [together(change) for change in tried]
        if any(counts):
            held = [(one.cost - FREQUENCY_SHARE * log10(1 + n), one) for n, one in zip(counts, tried, strict=True) if n]
            return min(held)[1]
        return next((change for change in tried if change.is_sure), None)

    def _spelled(self, word: TypedWord) -> Iterator[SpellingChange]:
        for other, distance, documents in self._alike(word.text):
            if distance and documents >= max(1, BETTER_TIMES * word.documents):
                text = _as_typed(other, word.text)
                bound = f'"{text}"' if " " in other and not word.within.quoted else text
                price = edit_cost(fold(word.text), fold(other.replace(" ", "")), other.count(" "))
                yield SpellingChange(word.start, word.end, bound, price)

    def _joined(self, word: TypedWord) -> Iterator[SpellingChange]:
        """The word joined with the next or the previous one, where the vocabulary knows the result."""
        place = self._words.index(word)
        for left, right in pairwise(self._words[max(0, place - 1) : place + 2]):
            if left.is_plain and right.is_plain and not self._text[left.end : right.start].strip():
                own = self._alike(left.text + right.text)[:1]
                if own and not own[0][1] and own[0][2] >= max(1, BETTER_TIMES * word.documents):
                    yield SpellingChange(left.start, right.end, left.text + right.text, LIKELY_CHANGE_COST)

    def _with(self, changes: Iterable[SpellingChange]) -> str:
        """The text with these changes."""
        pieces, at = [], 0
        for change in sorted(changes):
            pieces += [self._text[at : change.start], change.text]
            at = change.end
        return "".join([*pieces, self._text[at:]])


def _as_typed(word: str, typed: str) -> str:
    """The replacement in the case of the typed word."""
    if typed.isupper() and len(typed) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if typed[:1].isupper() else word
