"""WARC `revisit` records (ISO 28500, 6.7): an unchanged page is archived as a reference to the copy archived before.

A visit whose body has the digest of the archived one, or a 304 that confirms it, gets a `revisit` record: the header
block of the response, and the date of the record that holds the body.
"""

PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
NOT_MODIFIED, SAME_PAYLOAD = f"{PROFILES}server-not-modified", f"{PROFILES}identical-payload-digest"


def is_unchanged(payload: str, archived_payload: str, archived_at: float) -> bool:
    """Whether the archive has a body with this digest already, so that a `revisit` record refers to it."""
    return bool(archived_at and payload and payload == archived_payload)


def revisit_headers(url: str, response: bytes, archived: str) -> dict[str, str]:
    """The WARC headers of a `revisit` record; `archived`: the date of the record that holds the body."""
    return {
        "WARC-Profile": NOT_MODIFIED if response[:12].endswith(b"304") else SAME_PAYLOAD,
        "WARC-Refers-To-Target-URI": url,
        "WARC-Refers-To-Date": archived,
    }
