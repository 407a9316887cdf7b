"""Makes titles, headings, sentences and paragraphs from the lexicon.

Promises: for a language and a seed the blocks of text are always the same. They are made once, and a page only picks
from them. The grammar is small but real (articles agree, prepositions contract), because text without grammar confuses
language detectors and looks wrong in a snippet.
Knows nothing of HTML, hosts or time.

A page's subject is its title. `frames` are sentences with a slot for it, so that a search for the words of a title
finds more of them in that page's text than elsewhere.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tarrafa.testweb.world.hash_random import zipf
from tarrafa.testweb.world.lexicon import Lexicon, Noun, fold, lexicon, pt_adjective

SENTENCES = 1 << 14
PARAGRAPHS = 1 << 13  # powers of two: a page picks with a mask
FRAMES = 1 << 10  # 16 bits, shifted, are an index into these three
HEADS = 1 << 13
TAILS = 1 << 13
TITLE_ZIPF = 0.6  # flatter than in the text: titles reach far into the tail of the vocabulary, so they are distinct


@dataclass(frozen=True, slots=True)
class InterfaceLabels:
    """The labels of a site's menus, lists and footer."""

    home: str
    related: str
    popular: str
    elsewhere: str
    updated: str
    print: str
    archive: str
    missing: str
    about: str


@dataclass(frozen=True, slots=True, repr=False)  # a megabyte of text is no help in a traceback
class Prose:
    """The blocks of text. A title is `heads[i] + " " + tails[j]`, its words in a path `head_slugs[i]` and
    `tail_slugs[j]`.
    """

    language: str
    paragraphs: tuple[str, ...]
    frames: tuple[str, ...]
    heads: tuple[str, ...]
    tails: tuple[str, ...]
    head_slugs: tuple[str, ...]
    tail_slugs: tuple[str, ...]
    interface: InterfaceLabels


# A pattern is a sentence with numbered slots; the letters after it tell what fills each one:
# D the noun, U a noun, G of the noun, L in the noun, P the nouns, A adjective of the noun before, V verb, T the title.
PT_PATTERNS = (
    ("%s %s %s %s %s.", "DAVDG"), ("%s, %s %s %s que %s %s %s.", "LDVUVDA"),
    ("%s %s não %s %s, mas %s %s %s.", "DGVDVPL"),
    ("Segundo %s, %s %s %s %s.", "DDVUA"), ("Para %s, %s é mais %s do que %s.", "DDAD"),
    ("Quando %s %s %s, ninguém %s %s %s.", "DVDVPL"), ("%s e %s estão entre %s de que mais se fala na região.", "DDP"),
    ("Também %s %s %s para que %s seja %s.", "VDLDA"), ("Foi assim que %s %s %s, como já se sabia %s.", "DVPL"),
    ("%s %s %s depois de muito tempo, e %s %s %s.", "DVDDVU"),
)  # fmt: skip
PT_FRAMES = (
    ("%s: é disso que %s %s %s %s.", "TDGVD"), ("Sobre %s, %s %s %s.", "TDVU"), ("%s %s %s com %s.", "DVDT"),
    ("Quem procura %s encontra %s %s.", "TUL"), ("A história de %s começa %s, onde %s %s %s.", "TLDVD"),
    ("Não há %s sem %s, nem %s sem %s.", "TDUD"),
)  # fmt: skip
EN_PATTERNS = (
    ("%s %s %s %s.", "DVDG"), ("%s, %s %s %s that %s %s.", "LDVUVD"), ("%s %s did not come, but %s %s %s.", "DGDVP"),
    ("According to %s, %s %s %s.", "DDVU"), ("For %s, %s was not only here but also with %s.", "DDP"),
    ("When %s %s %s, nobody else %s %s %s.", "DVDVPL"),
    ("%s and %s are among %s of which we have heard the most.", "DDP"),
    ("This is why %s %s %s, and what they had to do with %s.", "DVUP"),
    ("It was then that %s %s %s, as was known %s.", "DVPL"),
    ("%s %s %s after a long time, and %s %s %s.", "DVDDVU"),
)  # fmt: skip
EN_FRAMES = (
    ("%s: this is what %s %s %s.", "TDVD"), ("About %s, %s %s %s.", "TDVU"), ("%s %s %s with %s.", "DVDT"),
    ("Those who look for %s will find %s %s.", "TUL"), ("The story of %s begins %s, where %s %s %s.", "TLDVD"),
    ("There is no %s without %s, and no end to %s.", "TDP"),
)  # fmt: skip

PT_INTERFACE = InterfaceLabels(
    "Página inicial", "Leia também", "As mais lidas", "Em outros sítios", "Atualizado em", "Versão para impressão",
    "Arquivos", "Página não encontrada", "Quem somos",
)  # fmt: skip
EN_INTERFACE = InterfaceLabels(
    "Home", "Read also", "Most read", "On other sites", "Updated on", "Print version",
    "Files", "Page not found", "About us",
)  # fmt: skip

Filler = Callable[[Noun], str]


def _pt(masculine: str, feminine: str) -> Filler:
    return lambda noun: f"{masculine if noun.gender == 'm' else feminine} {noun.singular}"


PT_FILLERS: dict[str, Filler] = {
    "D": _pt("o", "a"), "U": _pt("um", "uma"), "G": _pt("do", "da"), "L": _pt("no", "na"),
    "P": lambda noun: f"{'os' if noun.gender == 'm' else 'as'} {noun.plural}",
}  # fmt: skip
EN_FILLERS: dict[str, Filler] = {
    "D": lambda noun: f"the {noun.singular}",
    "U": lambda noun: f"{'an' if noun.singular[0] in 'aeiou' else 'a'} {noun.singular}",
    "G": lambda noun: f"of the {noun.singular}",
    "L": lambda noun: f"in the {noun.singular}",
    "P": lambda noun: f"the {noun.plural}",
}


def _make_sentences(
    words: Lexicon, seed: int, purpose: int, patterns: Sequence[tuple[str, str]], count: int
) -> tuple[str, ...]:
    """`count` sentences from the patterns in turn, nouns by Zipf's law; the slot of the title stays open as %s."""
    fillers = PT_FILLERS if words.language == "pt" else EN_FILLERS
    nouns = iter(zipf(seed, purpose, 8 * count, len(words.nouns)))
    others = iter(zipf(seed, purpose + 1, 8 * count, 1 << 12, exponent=0.3))
    sentences = []
    for number in range(count):
        pattern, holes = patterns[number % len(patterns)]
        filled: list[str] = []
        gender = "m"
        for hole in holes:
            if hole == "V":
                filled.append(words.verbs[next(others) % len(words.verbs)])
            elif hole == "A":
                filled.append(pt_adjective(words.adjectives[next(others) % len(words.adjectives)], gender))
            elif hole == "T":
                filled.append("%s")
            else:
                noun = words.nouns[next(nouns)]
                gender = noun.gender
                filled.append(fillers[hole](noun))
        sentence = pattern % tuple(filled)
        sentences.append(sentence[0].upper() + sentence[1:])
    return tuple(sentences)


def _paragraphs(sentences: tuple[str, ...]) -> tuple[str, ...]:
    """Groups of three to eight sentences, arranged so that each sentence is in several paragraphs with other
    neighbours.
    """
    paragraphs = []
    for number in range(PARAGRAPHS):
        step = 2 * number + 5
        picked = range(2 * number, 2 * number + step * (3 + number % 6), step)
        paragraphs.append(" ".join([sentences[i % SENTENCES] for i in picked]))
    return tuple(paragraphs)


def _heads(words: Lexicon, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """First halves of titles: a noun, half of the time with an adjective."""
    heads, slugs = [], []
    ranks = zipf(seed, 24, HEADS, len(words.nouns), TITLE_ZIPF)
    picks = zipf(seed, 25, HEADS, 2 * len(words.adjectives), exponent=0.0)
    for rank, pick in zip(ranks, picks, strict=True):
        noun = words.nouns[rank]
        text = noun.singular
        if pick < len(words.adjectives):
            adjective = pt_adjective(words.adjectives[pick], noun.gender)
            text = f"{text} {adjective}" if words.language == "pt" else f"{adjective} {text}"
        heads.append(text[0].upper() + text[1:])
        slugs.append(fold(noun.singular))
    return tuple(heads), tuple(slugs)


def _tails(words: Lexicon, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Second halves of titles: of the noun, in the noun, and the nouns."""
    fillers = PT_FILLERS if words.language == "pt" else EN_FILLERS
    conjunction = "e" if words.language == "pt" else "and"
    tails, slugs = [], []
    for number, rank in enumerate(zipf(seed, 26, TAILS, len(words.nouns), TITLE_ZIPF)):
        noun = words.nouns[rank]
        kind = "GLP"[number % 3]
        tails.append(f"{conjunction} {fillers['P'](noun)}" if kind == "P" else fillers[kind](noun))
        slugs.append(fold(noun.singular))
    return tuple(tails), tuple(slugs)


@lru_cache(maxsize=16)
def make_prose(language: str, seed: int) -> Prose:
    """The blocks of one language, some 100 ms to make."""
    words = lexicon(language, seed)
    portuguese = language == "pt"
    heads, head_slugs = _heads(words, seed)
    tails, tail_slugs = _tails(words, seed)
    return Prose(
        language=language,
        paragraphs=_paragraphs(_make_sentences(words, seed, 20, PT_PATTERNS if portuguese else EN_PATTERNS, SENTENCES)),
        frames=_make_sentences(words, seed, 22, PT_FRAMES if portuguese else EN_FRAMES, FRAMES),
        heads=heads,
        tails=tails,
        head_slugs=head_slugs,
        tail_slugs=tail_slugs,
        interface=PT_INTERFACE if portuguese else EN_INTERFACE,
    )
