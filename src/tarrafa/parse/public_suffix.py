"""Computes the site (registered domain) of a host by the public suffix list.

Promises: the private section of the list counts (`foo.github.io` is a site of its own). An IP address, a name of one
label and a public suffix are their own sites. The same list gives the same answer.
Knows nothing of where the list comes from: the frontier keeps the snapshot that all workers use, so that an update of
the list never moves a site; `runtime/public_suffix_list` reads the bundled list.
"""

import re
from collections.abc import Iterable

from publicsuffixlist import PublicSuffixList

from tarrafa.errors import ConfigError
from tarrafa.i18n import message
from tarrafa.parse.url import is_ip_address

SITES_CACHED_MAX = 50_000

_suffix = re.compile(r"!?(\*\.)?[^\s./*!:]+(\.[^\s./*!:]+)*").fullmatch


class PublicSuffixes:
    """The public suffix list, with the suffixes that a configuration adds (`br.test`)."""

    def __init__(self, text: str, extra: Iterable[str] = ()) -> None:
        added = [self._checked(suffix) for suffix in extra]
        self._list = PublicSuffixList(text.splitlines() + added)
        self._sites: dict[str, str] = {}

    @staticmethod
    def _checked(suffix: str) -> str:
        text = suffix.strip().strip(".").lower()
        try:
            text.encode("idna")
        except UnicodeError:
            text = ""
        if not _suffix(text):
            raise ConfigError(
                message('[network] suffixes: {suffix!r} is no domain suffix; write it like "br.test"', suffix=suffix)
            )
        return text

    def site(self, host_name: str) -> str:
        """The registered domain of a host name, or the name itself if it has none."""
        found = self._sites.get(host_name)
        if found is None:
            if len(self._sites) >= SITES_CACHED_MAX:
                self._sites.clear()
            found = self._sites[host_name] = self._site(host_name)
        return found

    def _site(self, host_name: str) -> str:
        if is_ip_address(host_name):
            return host_name
        name = host_name.rstrip(".")
        site: str | None = self._list.privatesuffix(name)
        return site or name or host_name
