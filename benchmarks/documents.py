"""What do the benchmarks search in, when it must be large and the same for everybody?

Portuguese-like documents without end, each always the same for its number: the synthetic Web's words in its sentence
patterns (`tarrafa.testweb`), but every sentence drawn anew, so that documents share words and turns of phrase and not
whole
paragraphs. Articles and prepositions are a third of the words. Nouns follow the law of Zipf and Mandelbrot over twelve
thousand, 1/(rank + 30): the commonest is in half of the documents, as in real Portuguese, and one that is picked from
a text at random is in 3 %. Each document has a number of its own, as pages have.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tarrafa.testweb.world.hash_random import draw, uniform
from tarrafa.testweb.world.lexicon import lexicon, pt_adjective
from tarrafa.testweb.world.prose import PT_FILLERS, PT_FRAMES, PT_PATTERNS, make_prose

SEED = 6
WORDS_MIN, WORDS_MAX = 300, 600
WORDS_PER_SENTENCE = 11.8  # as the patterns come out
TITLE_EVERY = 9  # sentences
DRAWN_TOGETHER = 500  # documents
PAGES_PER_SITE = 120
_NOUNS, _OTHERS, _LENGTHS, _TITLES = 1_000_000, 2_000_000, 3_000_000, 60  # purposes of chance
_FEWEST, _MOST = int(WORDS_MIN / WORDS_PER_SENTENCE), int(WORDS_MAX / WORDS_PER_SENTENCE)
_PER_SENTENCE = 4  # nouns, and likewise other words: more than the longest document takes
_FLATTENED = 30  # Mandelbrot's number


@dataclass(frozen=True, slots=True)
class Text:
    """One document."""

    number: int
    title: str
    heading: str
    body: str

    @property
    def url(self) -> str:
        return url_of(self.number)

    @property
    def site(self) -> str:
        return site_of(self.number)


def site_of(number: int) -> str:
    return f"s{number // PAGES_PER_SITE}.com.br"


def url_of(number: int) -> str:
    return f"http://www.{site_of(number)}/p/{number}.html"


def title_of(number: int) -> str:
    blocks, bits = make_prose("pt", SEED), draw(SEED, _TITLES, 0, number)
    return f"{blocks.heads[bits % len(blocks.heads)]} {blocks.tails[(bits >> 32) % len(blocks.tails)]}"


def texts(count: int) -> Iterator[Text]:
    """The documents from number 0 on."""
    sentences = _Sentences()
    for first in range(0, count, DRAWN_TOGETHER):
        some, batch = min(DRAWN_TOGETHER, count - first), first // DRAWN_TOGETHER
        holes = some * (_MOST + 1) * _PER_SENTENCE
        sentences.draw(uniform(SEED, _NOUNS + batch, holes), uniform(SEED, _OTHERS + batch, holes))
        lengths = uniform(SEED, _LENGTHS + batch, some)
        for number, length in enumerate(lengths, first):
            yield sentences.document(number, _FEWEST + int(length * (_MOST - _FEWEST + 1)))


class _Sentences:
    """Fills patterns. Each noun's words for each hole are made once, so that a sentence is a look-up per hole."""

    def __init__(self) -> None:
        words = lexicon("pt", SEED)
        self._mass = np.cumsum(1 / (np.arange(len(words.nouns)) + _FLATTENED))
        self._nouns: Iterator[int] = iter(())
        self._others: Iterator[int] = iter(())
        self._fillers = {hole: [fill(noun) for noun in words.nouns] for hole, fill in PT_FILLERS.items()}
        self._genders = [noun.gender for noun in words.nouns]
        self._adjectives = {gender: [pt_adjective(word, gender) for word in words.adjectives] for gender in "mf"}
        self._verbs = words.verbs

    def draw(self, nouns: NDArray[np.float64], others: NDArray[np.float64]) -> None:
        """Where the next documents take their words from."""
        picked = np.searchsorted(self._mass, nouns * self._mass[-1], side="right")
        self._nouns = iter(np.minimum(picked, len(self._mass) - 1).tolist())
        self._others = iter((others * (1 << 30)).astype(np.int64).tolist())

    def document(self, number: int, sentences: int) -> Text:
        title = title_of(number)
        heading = self._filled(PT_FRAMES[number % len(PT_FRAMES)], title)
        said = [heading, f"Registro {number}."]
        for place in range(1, sentences):
            framed = place % TITLE_EVERY == 0
            patterns, pick = (PT_FRAMES, place) if framed else (PT_PATTERNS, next(self._others))
            said.append(self._filled(patterns[pick % len(patterns)], title))
        return Text(number, title, heading, "\n".join(said))

    def _filled(self, pattern: tuple[str, str], title: str) -> str:
        filled, gender = [], "m"
        for hole in pattern[1]:
            if hole == "V":
                filled.append(self._verbs[next(self._others) % len(self._verbs)])
            elif hole == "A":
                adjectives = self._adjectives[gender]
                filled.append(adjectives[next(self._others) % len(adjectives)])
            elif hole == "T":
                filled.append(title)
            else:
                noun = next(self._nouns)
                gender = self._genders[noun]
                filled.append(self._fillers[hole][noun])
        return pattern[0] % tuple(filled)
