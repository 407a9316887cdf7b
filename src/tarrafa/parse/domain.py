"""Normalizes a typed domain name, and lists a host's domain and its parent domains.

Promises: `parse_domain` gives a name as it appears in URLs (lower case, `são.br` as `xn--so-sia.br`), or None for a
text that is no host name. `domain_and_parents` gives the host's own name and its parent domains, as the `site:`
operator understands them. Pure.
Knows nothing of public suffixes: it does not ask who owns `br`.
"""

import re
from collections.abc import Iterator

from tarrafa.parse.url import canonical, host_name

LABELS_MAX = 12  # of a domain, from the right: the index keeps this many of a host
NAME_CHARS_MAX = 253

_bare = re.compile(r"(?:https?://)?([^\s/?#@*:\\]+|\[[0-9a-fA-F:.]+\])/?").fullmatch
_address = re.compile(r"\[.*\]|\d{1,3}(\.\d{1,3}){3}").fullmatch


def parse_domain(text: str) -> str | None:
    """The domain in a typed text: `ufmg.br`, `www.UFMG.br.`, `https://ufmg.br/`. None if it has a path or a port."""
    typed = _bare(text.strip())
    url = canonical(f"http://{typed[1]}/") if typed else None
    name = host_name(url).rstrip(".") if url is not None else ""
    return name if 0 < len(name) <= NAME_CHARS_MAX else None


def is_ip_address(name: str) -> bool:
    """Whether the name is an IP address, which has no parent domains."""
    return _address(name) is not None


def domain_and_parents(name: str) -> Iterator[str]:
    """The name itself and every domain above it: www.ufmg.br, ufmg.br, br."""
    name = name.rstrip(".")
    yield name
    if is_ip_address(name):
        return
    labels = name.split(".")
    for start in range(max(1, len(labels) - LABELS_MAX), len(labels)):
        yield ".".join(labels[start:])
