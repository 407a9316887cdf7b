"""Frequent words of a language, and the pairs that their terms form: phrases of frequent words are found by pairs.

Promises: `frequent_terms` is the same set for pages and queries, and part of the index format: `schema` has a digest of
it in the name of its field of pairs, so an index with other frequent words is refused. Portuguese and English have 200
frequent terms each; other languages have none, and their phrases are found by positions alone. Knows nothing of
tantivy.

A phrase is found by the positions of its words in the pages that hold all of them. For rare words these are few pages;
for two frequent words they are half of all pages, and the positions there are long lists. So two adjacent frequent
terms are also one term, a *pair* (`de_a`), and no other two are: pairs of all adjacent terms would be two thirds of the
index. A phrase of frequent words is found by its pairs: two words are one look-up, four are three pairs in a row. Every
other phrase has a word that is not frequent, and is found by positions. Known weakness: words that are frequent in one
collection only (the menu of a site) are found by positions.

The words are those that are frequent in every one of several kinds of written text (abstracts, help texts, manuals),
and the function words of the language, which a search does not look for by themselves. Words with the same term (`o`,
`os`) count once.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from xxhash import xxh3_64_hexdigest

from tarrafa.index.text_analysis import analyze, fold, portuguese_singular

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


def _terms(words: dict[str, str]) -> dict[str, frozenset[str]]:
    return {language: frozenset(analyze(text, language).split()) for language, text in words.items()}


_FOLDED_FUNCTION_WORDS = frozenset(map(fold, " ".join(_FUNCTION_WORDS.values()).split()))
_TERMS = {language: found | _terms(_OTHER_WORDS)[language] for language, found in _terms(_FUNCTION_WORDS).items()}
_ALL_TERMS = frozenset[str]().union(*_TERMS.values())  # a term bears the sign of its language
FORMAT = xxh3_64_hexdigest(" ".join(sorted(_ALL_TERMS)).encode())[:8]  # differs as soon as a frequent term does


def frequent_terms(language: str = "") -> frozenset[str]:
    """The frequent terms of a language (`pt`, `en`), or of all languages together."""
    return _TERMS.get(language, frozenset()) if language else _ALL_TERMS


def frequent_pairs(terms: Sequence[str]) -> list[str]:
    """Each two adjacent frequent terms as one term, with a filler between two runs of frequent terms: pairs that are
    neighbours in this list are neighbours in the text.
    """
    frequent, found, goes_on = _ALL_TERMS, list[str](), False
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
    return _ALL_TERMS.issuperset(terms)
