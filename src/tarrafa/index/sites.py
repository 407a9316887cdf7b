"""Which site is a page of?

Promises: the registrable domain by the bundled public suffix list, and by the suffixes that the page's collection adds
to it: each archive file begins with how its collection was configured.
Knows nothing of documents.
"""

from pathlib import Path

import msgspec

from tarrafa.archive.history import first_notes
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError
from tarrafa.fetch.suffixes import bundled_suffix_list
from tarrafa.model import CollectionNote
from tarrafa.parse.site import PublicSuffixes


class _SiteNetwork(msgspec.Struct, frozen=True):
    suffixes: tuple[str, ...] = ()


class _SiteConfig(msgspec.Struct, frozen=True):
    network: _SiteNetwork = _SiteNetwork()


_decode = msgspec.json.Decoder(_SiteConfig).decode


class SiteResolver:
    """Learns of each collection when it is first asked about it."""

    def __init__(self, data: DataDirectory) -> None:
        self._archive: Path = data.archive
        self._plain = PublicSuffixes(bundled_suffix_list())
        self._by_collection: dict[str, PublicSuffixes] = {}

    def site_of(self, collection: str, host: str) -> str:
        found = self._by_collection.get(collection)
        if found is None:
            found = self._by_collection[collection] = self._learn(collection)
        return found.site(host)

    def _learn(self, collection: str) -> PublicSuffixes:
        for note in first_notes(self._archive):
            if isinstance(note, CollectionNote) and note.collection == collection:
                try:
                    extra = _decode(note.config).network.suffixes
                    return PublicSuffixes(bundled_suffix_list(), extra) if extra else self._plain
                except (msgspec.MsgspecError, ConfigError):
                    break
        return self._plain
