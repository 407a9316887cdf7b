"""Which of a host's waiting URLs comes first?

Pure: a rank from what is known of the URL; the smallest goes first. Touches neither network nor disk nor clock.
"""

from tarrafa.model import UrlId

TIE = 1e-12  # the discovery number decides between equals; a thousand billion of them stay below one in-link
LAST = 1e15  # beyond every other rank


def rank(order: str, sequence: int, url_id: UrlId, in_links: int, attempts: int = 0) -> float:
    """`sequence` is the URL's number in the order of discovery.

    What failed before goes last: one bad URL must not stand in the way of a host's good ones.
    """
    if order == "lifo":
        place = float(-sequence)
    elif order == "random":
        place = float(int.from_bytes(url_id[:6], "big"))
    elif order == "backlinks":
        place = sequence * TIE - in_links
    else:
        place = float(sequence)
    return place + attempts * LAST
