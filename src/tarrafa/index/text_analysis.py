"""Text analysis of pages and queries: words, accent folding and stemming.

Promises: pure and deterministic; accents and case never matter; singular and plural have the same term in Portuguese
and English; other languages are folded only. A page is analysed in its own language. The language of a query's words is
unknown, so a query searches for all `readings` of a word at once. Terms of different languages are different terms,
with a sign of the language at their end: `rede` and the English `red` have the same stem, and nothing else in common.
(A search for *red* still finds *rede*: read as Portuguese, that is its stem.) Every analysed word is cached, which
makes repeated words cheap. Knows nothing of tantivy. Known weakness: scripts that write no spaces, or vowels as marks,
are cut at every character that is not a letter, in pages and queries alike.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

import Stemmer

WORD_CHARS_MAX = 64  # a longer word is cut to its beginning
TOKENS_REMEMBERED_MAX = 300_000  # per language; some 40 MB
TOKEN_CHARS_REMEMBERED_MAX = 80

# A word is a run of letters and digits. Two plus signs after it belong to it, and a number sign after a single letter:
# C++, C#. `word_kernels.signs_after` says the same.
WORD_PATTERN = re.compile(r"[^\W_]+(?:\+\+(?![^\W_]|\+)|(?<![^\W_]{2})#(?![^\W_]|#))?")

_find_words = WORD_PATTERN.finditer
_all_words = WORD_PATTERN.findall


def compose(text: str) -> str:
    """Letters with their accents as one character each, so that no word is cut at an accent."""
    return text if text.isascii() or _is_latin_1(text) else unicodedata.normalize("NFC", text)


def _is_latin_1(text: str) -> bool:
    """Whether a long text is in Latin-1, which has composed letters only. The size of the object says whether to try:
    where it is, encoding is copying.
    """
    try:
        return sys.getsizeof(text) < 2 * len(text) and bool(text.encode("latin-1"))
    except UnicodeEncodeError:
        return False


def fold(word: str) -> str:
    """Remove accents, case, and every other character that is no letter or digit after decomposition (½, ﷺ)."""
    if word.isascii():
        return word[:WORD_CHARS_MAX].lower()
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", word).casefold())
    return "".join(filter(str.isalnum, apart))[:WORD_CHARS_MAX]


# The plural rules of the RSLP stemmer (Orengo and Huyck, 2001), accents folded: ending, singular, least length of what
# stands before it, and words that only look like plurals. They come before Snowball, which alone keeps "função" and
# "funções" apart (measured on known-item queries: MRR .563 against .538).
_PLURALS: tuple[tuple[str, str, int, frozenset[str]], ...] = (
    ("ns", "m", 1, frozenset()),
    ("oes", "ao", 2, frozenset()),
    ("aes", "ao", 1, frozenset({"maes"})),
    ("ais", "al", 1, frozenset({"cais", "mais", "demais", "jamais", "pais"})),
    ("eis", "el", 2, frozenset({"leis", "reis", "seis"})),
    ("ois", "ol", 2, frozenset({"dois", "pois", "depois"})),
    ("is", "il", 2, frozenset({"lapis", "cais", "mais", "demais", "jamais", "crucis", "biquinis", "pois", "depois",
                               "dois", "leis", "reis", "seis", "pais"})),
    ("les", "l", 3, frozenset()),
    ("res", "r", 3, frozenset({"arvores"})),
    ("s", "", 2, frozenset({"alias", "pires", "lapis", "cais", "mais", "demais", "jamais", "mas", "menos", "ferias",
                            "fezes", "pesames", "crucis", "gas", "atras", "moises", "atraves", "conves", "pais",
                            "apos", "ambas", "ambos", "messias", "tres", "mes", "onibus", "virus"})),
)  # fmt: skip


# Words that end in an unstressed -il have their plural in -eis, as have the more frequent ones in -el; the ending does
# not decide.
_IN_IL = re.compile(
    r"(?:ag|contrat|deb|dific|doc|duct|erec?t|ester|estenc|fac|fert|fiss|fleb|foss|frag|fut|grac|hab|ignob|inab|inconsut|"
    r"indoc|infert|inut|inverossim|lab|miss|mob|nub|pens|portat|preens|projec?t|pulsat|rept|retrat|sess|sim|tac?t|text|ut|"
    r"verossim|versat|vibrat|volat)eis"
).fullmatch


def portuguese_singular(word: str) -> str:
    """The singular of a folded Portuguese word, as far as its ending decides."""
    if not word.endswith("s"):
        return word
    if _IN_IL(word):
        return f"{word[:-3]}il"
    for ending, replacement, least, exceptions in _PLURALS:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            if word not in exceptions:
                return word[: len(word) - len(ending)] + replacement
            if ending == "s":
                return word
    return word


class _AnalysisCache(dict[str, str]):
    """Maps the text between two spaces to its terms, joined by spaces: most often one, none for a dash, two for
    `guarda-chuva`. Every repetition is a plain dictionary look-up: 60 us for a page of 600 words, where finding the
    words by a regular expression alone takes three times that.
    """

    def __init__(self, analyse: Callable[[str], str], sign: str = "") -> None:
        super().__init__()
        self._analyse, self.sign = analyse, sign

    def analyse(self, token: str) -> str:
        """The terms of a token, not remembered."""
        return " ".join(term + self.sign for term in map(self._analyse, words(token)) if term)

    def __missing__(self, token: str) -> str:
        terms = self.analyse(token)
        if len(token) <= TOKEN_CHARS_REMEMBERED_MAX:
            if len(self) >= TOKENS_REMEMBERED_MAX:
                self.clear()
            self[token] = terms
        return terms


_portuguese_stem: Callable[[str], str] = Stemmer.Stemmer("portuguese").stemWord
_english_stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord

ENGLISH, OTHER = "'", "."  # signs of a language; Portuguese terms have none. No word contains them.
_TERMS: dict[str, _AnalysisCache] = {
    "pt": _AnalysisCache(lambda word: _portuguese_stem(portuguese_singular(fold(word)))),
    "en": _AnalysisCache(lambda word: _english_stem(fold(word)), ENGLISH),
    "": _AnalysisCache(fold, OTHER),
}


def terms_of_language(terms: Iterable[str], language: str) -> list[str]:
    """The terms of one language, without its sign."""
    sign = _analysis(language).sign
    return [plain for term in terms if term == (plain := term.rstrip(ENGLISH + OTHER)) + sign]


WORD_BOUND = "|"  # between a folded word and the word itself; no word contains it


def _entries(word: str) -> str:
    """The vocabulary entry of a word: folded, and in its lower-case spelling where that differs."""
    folded, small = fold(word), word.lower()
    if len(word) > WORD_CHARS_MAX or not folded:
        return ""
    return folded if small == folded else folded + WORD_BOUND + small


_ENTRIES = _AnalysisCache(_entries)


def vocabulary_entries(text: str, tokens_max: int | None = None) -> str:
    """The different words of a text as vocabulary entries, joined by spaces."""
    found = set(map(_ENTRIES.__getitem__, set(compose(text).split()[:tokens_max])))
    found.discard("")
    return " ".join(found)


def token_entries(token: str) -> str:
    """The vocabulary entries of the text between two spaces, not remembered."""
    return _ENTRIES.analyse(token)


def written_form(entry: str) -> str:
    """The word of a vocabulary entry, as written."""
    return entry.rpartition(WORD_BOUND)[2]


def primary_language(language: str) -> str:
    """The primary language subtag: `pt` of `pt-BR`."""
    return re.split(r"[-_]", language, maxsplit=1)[0].lower()


def analyzer_for(language: str) -> Callable[[str], str]:
    """The analysis function of a language: from the text between two spaces to its terms, joined by spaces."""
    return _analysis(language).__getitem__


def analyze_token(token: str, language: str) -> str:
    """The terms of the text between two spaces, not remembered."""
    return _analysis(language).analyse(token)


def language_of_analysis(language: str) -> str:
    """The language as which a text is analysed: `pt`, `en`, or empty for all others."""
    primary = language if language in _TERMS else primary_language(language)
    return primary if primary in _TERMS else ""


def _analysis(language: str) -> _AnalysisCache:
    return _TERMS[language_of_analysis(language)]


def words(text: str) -> list[str]:
    """The words: runs of letters and digits, and the signs of C++ and C#."""
    return _all_words(compose(text))


def word_spans(text: str) -> list[tuple[int, int]]:
    """The positions of the words of a composed text."""
    return [found.span() for found in _find_words(text)]


def analyze(text: str, language: str, tokens_max: int | None = None) -> str:
    """The text's terms in order, joined by spaces."""
    return " ".join(map(analyzer_for(language), text.split()[:tokens_max]))


@lru_cache(10_000)
def readings(text: str) -> tuple[tuple[str, ...], ...]:
    """The possible terms of a query's words in the index: in each language, without repetition."""
    return tuple(dict.fromkeys(tuple(analyze(text, language).split()) for language in _TERMS))
