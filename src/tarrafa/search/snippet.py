"""Which lines of the page show why it was found?

Promises: plain text out of the page's own text, white space evened out, at most SNIPPET_CHARS_MAX characters; it is not
HTML and holds no markers. `marked` cuts any text into pieces that are to be marked or not, for whoever prints it: the
printer escapes each piece.
Pure. Knows nothing of HTML or of the index. (tantivy's own snippets find nothing on stems.)
"""

from collections import Counter

from tarrafa.index.analysis import composed, terms_of, word_spans

SNIPPET_WORDS = 32
WORDS_BEFORE = 6
SNIPPET_CHARS_MAX = 280
PLAIN_CHARS_MIN = 6  # of shorter words a stem may begin otherwise: uns, dying
GAP = "…"

Pieces = list[tuple[str, bool]]


def snippet(text: str, wanted: frozenset[str], language: str, otherwise: frozenset[str] = frozenset()) -> str:
    """The stretch of the text with the most different wanted words in it, the earliest of equals; if there are none,
    with those that are wanted otherwise."""
    tokens = text.split()
    found = _places(tokens, wanted, language) or _places(tokens, otherwise, language)
    first = max(0, _best_place(found) - WORDS_BEFORE)
    last = first + SNIPPET_WORDS
    return _fitted(" ".join(tokens[first:last]), before=first > 0, after=last < len(tokens))


def _places(tokens: list[str], wanted: frozenset[str], language: str) -> list[tuple[int, str]]:
    """Where the wanted words stand. A long plain word that begins otherwise than all of them need not be analysed: its
    stem begins as it does."""
    term, starts, found = terms_of(language), {one[:2] for one in wanted}, []
    for place, token in enumerate(tokens):
        if len(token) >= PLAIN_CHARS_MIN and token.isascii() and token.isalpha() and token[:2].lower() not in starts:
            continue
        one = term(token)
        if one in wanted or (" " in one and not wanted.isdisjoint(one.split())):
            found.append((place, one))
    return found


def _best_place(found: list[tuple[int, str]]) -> int:
    """Where the window of words begins that holds the most different wanted terms, then the most of them."""
    best, best_value, right = 0, (0, 0), 0
    inside: Counter[str] = Counter()
    width = SNIPPET_WORDS - WORDS_BEFORE
    for left, (place, one) in enumerate(found):
        while right < len(found) and found[right][0] < place + width:
            inside[found[right][1]] += 1
            right += 1
        value = (len(inside), right - left)
        if value > best_value:
            best, best_value = place, value
        inside[one] -= 1
        if not inside[one]:
            del inside[one]
    return best


def _fitted(words: str, before: bool, after: bool) -> str:
    if len(words) > SNIPPET_CHARS_MAX:
        words, after = words[:SNIPPET_CHARS_MAX].rpartition(" ")[0] or words[:SNIPPET_CHARS_MAX], True
    return f"{GAP + ' ' if before else ''}{words}{' ' + GAP if after else ''}"


def marked(text: str, wanted: frozenset[str], language: str) -> Pieces:
    """The text in pieces, each with whether it is a wanted word. Put together, they are the (composed) text."""
    text = composed(text)
    term, pieces, at = terms_of(language), [], 0
    for start, end in word_spans(text):
        if term(text[start:end]) in wanted:
            if start > at:
                pieces.append((text[at:start], False))
            pieces.append((text[start:end], True))
            at = end
    if at < len(text):
        pieces.append((text[at:], False))
    return pieces
