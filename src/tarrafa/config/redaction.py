"""Redacts secrets, such as webhook tokens, from a collection before it is shown or archived.

The address that is notified of a crawl (`[notify] webhook`) often holds a token.
"""

from urllib.parse import urlsplit

from msgspec.structs import replace

from tarrafa.config.formats import REDACTED
from tarrafa.config.sections import Collection


def redact_url(address: str) -> str:
    """An address that anyone may see: without user, path and query, which often hold a token."""
    try:
        parts = urlsplit(address)
        place = f"{parts.scheme}://{parts.hostname or ''}" + (f":{parts.port}" if parts.port else "")
        rest = parts.path not in ("", "/") or parts.query or parts.fragment or parts.username or parts.password
    except ValueError:
        return REDACTED
    if not parts.scheme or not parts.hostname:
        return REDACTED if address else ""
    return f"{place}/{REDACTED}" if rest else address


def redact_collection(collection: Collection) -> Collection:
    """The collection for readers who may not change it."""
    return _with_webhook(collection, redact_url(collection.notify.webhook))


def redact_for_archive(collection: Collection) -> Collection:
    """The collection for the archive, which may be passed on to others: without the webhook."""
    return _with_webhook(collection, "")


def _with_webhook(collection: Collection, webhook: str) -> Collection:
    if collection.notify.webhook == webhook:
        return collection
    return replace(collection, notify=replace(collection.notify, webhook=webhook))
