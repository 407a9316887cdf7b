"""URL score of the `breadth` order, computed from host, length, path blocks and penalised patterns.

Pure: the score comes from the characters of the URL alone, before any request. Breadth chooses the first URL of a site
by this score, and the next ones within the site.

    score = favour x (its host is favoured) - length x characters - block x path blocks
            - penalty x (it matches a penalised pattern)

Characters are those of host, port, path and query: `http` and `https` are worth the same. Path blocks are the segments
between the slashes of the path; the query is none. The default weights are length 1, block 10, favour 50, penalty 200:
one block is worth ten characters; a favoured host makes up for five blocks; a penalised URL is behind everything that a
person would type. The greater score is better; between equals the URL discovered first goes first.

Why it works: the entry of a site is short (`a.br/`), deep pages have long names, and pages that lead elsewhere
(portals, lists of links) are near the root.
Known weakness: a site whose front page is `/cgi-bin/portal?id=1` is entered by any shorter URL; and a short URL may be
a login form. Hence `penalise`.
"""

from tarrafa.config import UrlScoreWeights


def url_score(url: str, favoured: bool, penalised: bool, weights: UrlScoreWeights) -> float:
    """Score of a canonical URL; the greater the better."""
    address = url.partition("://")[2]
    path = address.partition("?")[0].partition("/")[2]
    blocks = sum(1 for block in path.split("/") if block)
    return (
        weights.favour * favoured
        - weights.length * len(address)
        - weights.block * blocks
        - weights.penalty * penalised
    )  # fmt: skip
