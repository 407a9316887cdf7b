"""Defines the exceptions of `parse`: a document that cannot be read, and a page that must be parsed in the sandbox.

Promises: the one exception that `parse` raises, for documents that are no Web pages (PDF, office). HTML and plain
text always give a page; a document that is encrypted, damaged or made to cost too much gives this, with a few words
why. (`Risky` is for those alone who asked to be told.) Knows nothing of visits: the caller gives it a status.
"""

REASON_LENGTH_MAX = 120

ENCRYPTED = "encrypted"
DAMAGED = "damaged"
TOO_MUCH = "too much"


class UnreadableDocument(ValueError):
    """A document that says nothing to us. Its text is the reason: `encrypted`, `damaged: no %PDF- in it`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}"[:REASON_LENGTH_MAX] if detail else reason)
        self.reason = reason


class SandboxRequired(Exception):
    """Nothing is wrong with it, but it is to be read where it can do no harm: a library that it needs may crash."""
