"""Defines the exceptions of `parse`: a document that cannot be read, and a page that must be parsed in the sandbox.

Promises: `UnreadableDocument` is the only exception that `parse` raises by default, and only for documents that are not
Web pages (PDF, RTF, office). HTML and plain text always give a page. A document that is encrypted, damaged or too
expensive raises it with a short reason. `SandboxRequired` is raised only for callers that pass `careful=True`.
Knows nothing of visits: the caller maps the exception to a status.
"""

REASON_LENGTH_MAX = 120

ENCRYPTED = "encrypted"
DAMAGED = "damaged"
TOO_MUCH = "too much"


class UnreadableDocument(ValueError):
    """A document that cannot be read. Its text is the reason: `encrypted`, `damaged: no %PDF- in it`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}"[:REASON_LENGTH_MAX] if detail else reason)
        self.reason = reason


class SandboxRequired(Exception):
    """The page is not at fault, but must be parsed in the sandbox: a library that it needs may crash the process."""
