"""Which of a host's waiting URLs comes first?

Pure: a rank from what is known of the URL; the smallest goes first. Touches neither network nor disk nor clock.
"""

from tarrafa.model import UrlId

TIE = 1e-12  # the discovery number decides between equals; a thousand billion of them stay below one in-link


def rank(order: str, sequence: int, url_id: UrlId, in_links: int) -> float:
    """`sequence` is the URL's number in the order of discovery."""
    if order == "lifo":
        return float(-sequence)
    if order == "random":
        return float(int.from_bytes(url_id[:6], "big"))
    if order == "backlinks":
        return sequence * TIE - in_links
    return float(sequence)
