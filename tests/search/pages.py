"""Pages with the fingerprints that parsing gives them."""

import msgspec

from tarrafa.model import Link, Record
from tarrafa.parse.fingerprint import content_id, fold, simhash
from tests.graph.small_web import COLLECTION, PORTUGUESE, a_record

LONG = f"{PORTUGUESE} {' '.join(reversed(PORTUGUESE.split()))} {PORTUGUESE[::-1]}"  # over 100 different words and pairs


def a_page(
    url: str,
    text: str,
    title: str = "",
    *,
    visit: int = 1,
    links: tuple[Link, ...] = (),
    collection: str = COLLECTION,
) -> Record:
    """One visit to a page, as the archive has it."""
    record = a_record(url, visit, title=title, text=text, links=links, collection=collection)
    assert record.page is not None
    folded = fold(f"{title}\n{text}")
    page = msgspec.structs.replace(record.page, content_id=content_id(folded), simhash=simhash(folded))
    return msgspec.structs.replace(record, page=page)
