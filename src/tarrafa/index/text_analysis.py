"""Text analysis of pages and queries: words, accent folding, stemming, pairs of frequent words, vocabulary.

Promises: pure and deterministic; accents and case never matter; singular and plural have the same term in Portuguese
and English; other languages are folded only. A page is analysed in its own language. The language of a query's words is
unknown, so a query searches for all `readings` of a word at once. Terms of different languages are different terms,
with a sign of the language at their end: `rede` and the English `red` have the same stem, and nothing else in common.
(A search for *red* still finds *rede*: read as Portuguese, that is its stem.) Every analysed word is cached, which
makes repeated words cheap. A long text of a page goes through compiled kernels, where there are any (`word_table`),
with the same results; only the order of vocabulary entries may differ. Knows nothing of tantivy. Known weakness:
scripts that write vowels as marks (Thai, those of India) are cut at every mark, in pages and queries alike.
"""

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import Stemmer
from xxhash import xxh3_64_hexdigest

from tarrafa.index.word_kernels import KERNELS
from tarrafa.runtime.compiled_kernels import CompiledKernels

WORD_CHARS_MAX = 64  # a longer word is cut to its beginning
TOKENS_REMEMBERED_MAX = 300_000  # per language; some 40 MB
TOKEN_CHARS_REMEMBERED_MAX = 80
COMPILED_CHARS_MIN = 400  # a shorter text takes the Python way
SHORT_TEXTS_MAX = 8_192  # of these remembered with their terms: some 5 MB

kernels = CompiledKernels("tarrafa.index.word_kernels", KERNELS)

# Letters of Chinese and Japanese, which are written without spaces: Han, hiragana, katakana and their signs. Each two
# adjacent ones are a word: 安装软件 is 安装, 装软, 软件, and 软件 is found in it. A letter that stands alone is a word.
UNSPACED = (
    "々-〇ぁ-ゖゝゞァ-ヺー-ヾㇰ-ㇿ㐀-䶿一-鿿\U00020000-\U0002a6df\U0002a700-\U0002b738\U0002b740-\U0002b81d"
    "\U0002b820-\U0002cea1\U0002ceb0-\U0002ebe0\U00030000-\U0003134a"
)
# A word is a run of other letters and digits. Two plus signs after it belong to it, and a number sign after a single
# letter: C++, C#. `word_kernels` says the same.
_WORD = r"[^\W_{0}]+(?:\+\+(?![^\W_{0}]|\+)|(?<![^\W_{0}]{{2}})#(?![^\W_{0}]|#))?"
WORD_PATTERN = re.compile(_WORD.format(UNSPACED))

_find_above = re.compile(f"[{UNSPACED[0]}-{UNSPACED[-1]}]").search  # fast, and enough for most texts
_find_unspaced = re.compile(f"[{UNSPACED}]").search
is_unspaced = re.compile(f"[{UNSPACED}]+").fullmatch
_find_words, _all_words = (getattr(re.compile(_WORD.format("")), name) for name in ("finditer", "findall"))
_find_runs = re.compile(f"([{UNSPACED}]+)|{WORD_PATTERN.pattern}").finditer


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
    if is_unspaced(word):  # voiced kana are letters of their own
        return word[:WORD_CHARS_MAX]
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


# Between a folded word and the word itself, which is left out where it is the same: `funcao|função`, `rede`. The other
# sign says that the page has the word in its template only: `funcao~função`, `rede~`. No word contains these signs.
WORD_BOUND, TEMPLATE_BOUND = "|", "~"


def _entries(word: str) -> str:
    """The vocabulary entry of a word: folded, and in its lower-case spelling where that differs."""
    folded = fold(word)
    return own_entry(folded, word.lower()) if folded and len(word) <= WORD_CHARS_MAX else ""


def own_entry(folded: str, small: str) -> str:
    """The vocabulary entry of a folded word, as the pages have it that write this spelling themselves."""
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


def template_entries(entries: str, own: str) -> str:
    """The vocabulary entries of a template, without those that the page itself has, and marked as its template's."""
    others = set(entries.split()).difference(own.split())
    return " ".join(
        entry.replace(WORD_BOUND, TEMPLATE_BOUND) if WORD_BOUND in entry else entry + TEMPLATE_BOUND for entry in others
    )


def entry_parts(entry: str) -> tuple[str, str]:
    """The folded word of a vocabulary entry, and the word as written."""
    folded, _, written = entry.replace(TEMPLATE_BOUND, WORD_BOUND).partition(WORD_BOUND)
    return folded, written or folded


def all_entries(folded: str, small: str) -> list[str]:
    """The vocabulary entries of a spelling, whether pages write it themselves or have it in their template."""
    own = own_entry(folded, small)
    return [own, template_entries(own, "")]


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
    """The words: runs of letters and digits, the signs of C++ and C#, and each two letters of an unspaced script."""
    text = compose(text)
    return [text[start:end] for start, end in word_spans(text)] if has_unspaced(text) else _all_words(text)


def has_unspaced(text: str) -> bool:
    """Whether a composed text has letters of a script without spaces."""
    if text.isascii() or (found := _find_above(text)) is None:
        return False
    return _find_unspaced(text, found.start()) is not None


def word_spans(text: str) -> list[tuple[int, int]]:
    """The positions of the words of a composed text; those of an unspaced script overlap."""
    if not has_unspaced(text):
        return [found.span() for found in _find_words(text)]
    spans = list[tuple[int, int]]()
    for found in _find_runs(text):
        start, end = found.span()
        spans += pairwise_spans(start, end) if found[1] else [(start, end)]
    return spans


def pairwise_spans(start: int, end: int) -> list[tuple[int, int]]:
    """Each two adjacent letters of a run; of a single letter, itself."""
    return [(at, at + 2) for at in range(start, end - 1)] or [(start, end)]


def analyze(text: str, language: str, tokens_max: int | None = None) -> str:
    """The text's terms in order, joined by spaces."""
    return " ".join(map(analyzer_for(language), text.split()[:tokens_max]))


@lru_cache(10_000)
def readings(text: str) -> tuple[tuple[str, ...], ...]:
    """The possible terms of a query's words in the index: in each language, without repetition."""
    return tuple(dict.fromkeys(_terms_by_analysis(text)))


def readings_in_a_row(left: str, right: str) -> list[tuple[str, ...]]:
    """The readings of two words of a query, side by side."""
    both = zip(_terms_by_analysis(left), _terms_by_analysis(right), strict=True)
    return list(dict.fromkeys([one + other for one, other in both]))


@lru_cache(10_000)
def _terms_by_analysis(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple([tuple(analyze(text, language).split()) for language in _TERMS])


# -- frequent words ----------------------------------------------------------------------------------------------------

# A phrase is found by the positions of its words in the pages that hold all of them. For rare words these are few
# pages; for two frequent words they are half of all pages, and the positions there are long lists. So two adjacent
# frequent terms are also one term, a *pair* (`de_a`), and no other two are: pairs of all adjacent terms would be two
# thirds of the index. A phrase of frequent words is found by its pairs: two words are one look-up, four are three pairs
# in a row. Every other phrase has a word that is not frequent, and is found by positions. Known weakness: words that
# are frequent in one collection only (the menu of a site) are found by positions.
#
# The words are those that are frequent in every one of several kinds of written text (abstracts, help texts, manuals),
# and the function words of the language, which a search does not look for by themselves. Words with the same term (`o`,
# `os`) count once: Portuguese and English have 200 frequent terms each, other languages none. They are the same for
# pages and queries, and part of the index format: `schema` has a digest of them in the name of its field of pairs, so
# an index with other frequent words is refused.

PAIR_BOUND = "_"  # between two adjacent terms; no term contains it
FILLER = "|"  # stands where neighbours in a field are none in the text; no term contains it

_FUNCTION_WORDS = {
    "pt": """
        de a o e que do da em para com como um uma no na se por não ao os as pelo pela ser mais mas ou foi são este
        esta esse essa isso isto aquele aquela seu sua ele ela você me te lhe meu minha nosso nossa todo toda tudo
        cada outro outra mesmo mesma
        qual quando onde quem quanto porque também já ainda até sem sobre entre após antes depois desde durante
        sob muito muita só apenas então assim aqui lá estava estar eram tem tinha ter há houve havia foram seja serão
        sendo sido deste desse neste nesse num dele dela algum alguma nenhum nenhuma qualquer tanto tal através além
        """,
    "en": """
        the of and to in a is that for it as was with be by on not he i this are or his from at which but have
        an had they you were there all we her has their been if more when would so no she other these what them
        than some him into only do such my could about out our up most then should any over after also your me
        did many must through before much where how because each just those very still even own same between
        under while during without against within both another since every however via does
        """,
}
_OTHER_WORDS = {
    "pt": """
        contra pouco bem mal logo hoje agora sempre nunca era pode deve fazer feito fez vai ir vem
        vamos ver dar dizer quer sabe usar uso nada
        vários dois duas três primeiro segundo novo grande maior menor melhor bom boa último parte
        forma caso vez tempo dia ano mês hora pessoa país trabalho nome número tipo ponto meio modo exemplo
        lista informação dados página texto site serviço sistema produto empresa brasil estado governo público
        geral grupo área nível ação fim final início falar região mostrar criar incluir conter 1 2 3 4
        5 6 7 8 9
        """,
    "en": """
        one can will who may time new two first like back well down make made use work here take now get go come
        know see say said need way day year part number name example system information data page text list file
        site service public group good last next help read view search contact free best please right done set
        type line case following available 1 2 3 4 5 6 7 8 9 10 0 s t d show create include contain provide
        change support test user code version different people open start call end
        """,
}


def _terms_by_language(words: dict[str, str]) -> dict[str, frozenset[str]]:
    return {language: frozenset(analyze(text, language).split()) for language, text in words.items()}


_FOLDED_FUNCTION_WORDS = frozenset(map(fold, " ".join(_FUNCTION_WORDS.values()).split()))
_OTHER_TERMS = _terms_by_language(_OTHER_WORDS)
_FREQUENT_TERMS = {
    language: found | _OTHER_TERMS[language] for language, found in _terms_by_language(_FUNCTION_WORDS).items()
}
_ALL_FREQUENT_TERMS = frozenset[str]().union(*_FREQUENT_TERMS.values())  # a term bears the sign of its language
# It differs as soon as a frequent term does.
FREQUENT_TERMS_FORMAT = xxh3_64_hexdigest(" ".join(sorted(_ALL_FREQUENT_TERMS)).encode())[:8]


def frequent_terms(language: str = "") -> frozenset[str]:
    """The frequent terms of a language (`pt`, `en`), or of all languages together."""
    return _FREQUENT_TERMS.get(language, frozenset()) if language else _ALL_FREQUENT_TERMS


def frequent_pairs(terms: Sequence[str]) -> list[str]:
    """Each two adjacent frequent terms as one term, with a filler between two runs of frequent terms: pairs that are
    neighbours in this list are neighbours in the text.
    """
    frequent, found, goes_on = _ALL_FREQUENT_TERMS, list[str](), False
    for one, following in pairwise(terms):
        if one in frequent and following in frequent:
            found.append(one + PAIR_BOUND + following)
            goes_on = True
        elif goes_on:
            found.append(FILLER)
            goes_on = False
    return found


@lru_cache(10_000)
def is_function_word(text: str) -> bool:
    """Whether a word of a query only joins others: `de`, `the`. Terms do not tell: *entre* has that of *entrar*."""
    folded = fold(text)
    return not _FOLDED_FUNCTION_WORDS.isdisjoint((folded, portuguese_singular(folded)))


def are_frequent(terms: Iterable[str]) -> bool:
    return _ALL_FREQUENT_TERMS.issuperset(terms)


# -- texts of pages ----------------------------------------------------------------------------------------------------


class PageTerms(NamedTuple):
    """The terms of a text and its pairs of frequent terms, both joined by spaces, and the number of terms."""

    terms: str
    pairs: str
    terms_count: int


def page_terms(text: str, language: str, tokens_max: int) -> PageTerms:
    functions = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if functions is not None:
        from tarrafa.index.word_table import word_table

        found = word_table(language_of_analysis(language)).terms(text, tokens_max, functions)
        if found is not None:
            terms, pairs, count = found
            return PageTerms(terms, pairs, count) if pairs is not None else pair_terms(terms)
    if len(text) < COMPILED_CHARS_MIN:
        return _short_terms(text, language, tokens_max)
    return pair_terms(analyze(text, language, tokens_max))


@lru_cache(maxsize=SHORT_TEXTS_MAX)
def _short_terms(text: str, language: str, tokens_max: int) -> PageTerms:
    """Anchors and headings come again and again."""
    return pair_terms(analyze(text, language, tokens_max))


def pair_terms(joined: str) -> PageTerms:
    """The Python way: pairs of terms that are joined by spaces."""
    terms = joined.split()
    return PageTerms(joined, " ".join(frequent_pairs(terms)), len(terms))


def page_vocabulary(title: str, text: str, language: str, tokens_max: int) -> str:
    """The different words of a title and of so many tokens of a text as vocabulary entries, joined by spaces. After
    `page_terms` of the same text it is cheap.
    """
    functions = kernels.get() if len(text) >= COMPILED_CHARS_MIN else None
    if functions is not None:
        from tarrafa.index.word_table import word_table

        found = word_table(language_of_analysis(language)).entries(title, text, tokens_max, functions)
        if found is not None:
            return found
    return vocabulary_entries(f"{title} {text}", tokens_max + len(title.split()))
