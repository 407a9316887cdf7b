"""Resolves IRI references against a base IRI (RFC 3986 section 5.2), without changing any spelling.

Promises: no letter is escaped and no host is rewritten, because two spellings are two names in RDF. Only dot segments
are removed. (Links to fetch go through `parse.url`, which normalizes.)
Knows nothing of CURIEs or of the characters that an IRI may hold.
"""

import re

_parts = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:)?(//[^/?#]*)?([^?#]*)(\?[^#]*)?", re.DOTALL).match
_absolute = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:").match


class BaseIri:
    """A base IRI, split once for all references on a page."""

    __slots__ = ("_authority", "_folder", "_origin", "_path", "_scheme", "whole")

    def __init__(self, iri: str) -> None:
        found = _parts(iri)
        scheme, authority, path, query = found.groups() if found else (None, None, "", None)
        self._scheme = scheme or ""
        self._authority = authority
        self._origin = self._scheme + (authority or "")
        self._path = self._origin + path
        self._folder = path[: path.rfind("/") + 1] or ("/" if authority else "")
        self.whole = self._path + (query or "")  # a base has no fragment

    def resolve(self, reference: str) -> str:
        """The resolved IRI. It may still hold characters that no IRI may hold: `nquads.iri` handles those."""
        if not reference:
            return self.whole
        first = reference[0]
        if first == "#":
            return self.whole + reference
        if _absolute(reference):
            return _normal(reference) if "/." in reference else reference
        if first == "?":
            return self._path + reference
        if reference.startswith("//"):
            return self._scheme + reference
        cut = min((at for at in (reference.find("?"), reference.find("#")) if at >= 0), default=len(reference))
        path, rest = reference[:cut], reference[cut:]
        joined = path if first == "/" else self._folder + path
        dots = "/." in joined or joined.startswith(".")
        return self._origin + (_without_dots(joined) if dots else joined) + rest


def _normal(absolute: str) -> str:
    found = _parts(absolute)
    if found is None or not found[2]:
        return absolute
    start, end = found.span(3)
    return absolute[:start] + _without_dots(absolute[start:end]) + absolute[end:]


def _without_dots(path: str) -> str:
    """The path without dot segments (RFC 3986 §5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1 or (kept and kept[0]):
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)
