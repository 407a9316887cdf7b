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
and the function words of the language. Words with the same term (`o`, `os`) count once.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from xxhash import xxh3_64_hexdigest

from tarrafa.index.text_analysis import analyze

PAIR_BOUND = "_"  # between two adjacent terms; no term contains it
FILLER = "|"  # stands where neighbours in a field are none in the text; no term contains it

_WORDS = {
    "pt": """
        de a o e que do da em para com um uma no na se por não ao os as pelo ser mais mas ou foi são este esta
        esse essa isso isto aquele seu sua ele ela você me te lhe meu minha nosso todo tudo cada outro mesmo
        qual quando onde quem quanto porque também já ainda até sem sobre entre após antes depois desde durante
        contra sob muito pouco bem mal só apenas então assim logo aqui lá hoje agora sempre nunca estava estar
        era eram tem tinha ter há houve havia foram seja serão sendo sido pode deve fazer feito fez vai ir vem
        vamos ver dar dizer quer sabe usar uso deste desse neste nesse num dele algum nenhum nada qualquer
        vários tanto tal dois duas três primeiro segundo novo grande maior menor melhor bom boa último parte
        forma caso vez tempo dia ano mês hora pessoa país trabalho nome número tipo ponto meio modo exemplo
        lista informação dados página texto site serviço sistema produto empresa brasil estado governo público
        geral grupo área nível ação através além fim final início falar região mostrar criar incluir conter 1 2 3 4
        5 6 7 8 9
        """,
    "en": """
        the of and to in a is that for it as was with be by on not he i this are or his from at which but have
        an had they you were there one all we can her has their been if more when will would who so no she other
        may these what them than some him time into only do such my could new about out our two up most first
        then should any like over after also your me did many must through before back much where how well down
        because each just those very make made still even own same use work here take now get go come know see
        say said need way day year part number name example system information data page text list file site
        service public group good last next help read view search contact free best between under while during
        without against within both another since every however via please right does done set type line case
        following available 1 2 3 4 5 6 7 8 9 10 0 s t d show create include contain provide change support test
        user code version different people open start call end
        """,
}


_TERMS = {language: frozenset(analyze(words, language).split()) for language, words in _WORDS.items()}
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


def are_frequent(terms: Iterable[str]) -> bool:
    return _ALL_TERMS.issuperset(terms)
