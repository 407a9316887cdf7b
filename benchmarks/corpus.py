"""Real text for crawl benchmarks: HTML pages of Debian's documentation in Portuguese and English.

Promises: text and markup are those of the packages. The same packages give the same pages in the same order, mixed by
hash. Only what makes a crawler request is changed, so that every crawler makes the same requests: each link of a page
leads to another page of the corpus, and nothing else is to be fetched (no images, scripts, style sheets, refreshes).
Knows nothing of hosts.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.debian_packages import NotAvailable, unpacked

PACKAGES = {  # and the folders in Portuguese and English of those that have more languages
    "libreoffice-help-pt-br": ("",),
    "libreoffice-help-en-us": ("",),
    "debian-handbook": ("usr/share/doc/debian-handbook/html/pt-BR", "usr/share/doc/debian-handbook/html/en-US"),
    "installation-guide-amd64": (
        "usr/share/doc/installation-guide-amd64/pt",
        "usr/share/doc/installation-guide-amd64/en",
    ),
    "debian-reference-pt-br": ("",),
    "debian-reference-en": ("",),
    "debian-faq-pt": ("",),
    "debian-faq": ("",),
    "postgresql-doc-15": ("",),
    "rust-doc": ("",),
}
PAGE_BYTES_MAX = 300_000
WORDS_MIN = 200  # shorter ones are mostly indexes of symbols
_VALUE = rb"""\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]+)"""
_LINK = re.compile(rb"""(<a\b[^>]*?\shref\s*=\s*)("[^"]*"|'[^']*'|[^\s>]+)""", re.IGNORECASE)
_REMOVED = re.compile(rb"""<(?:base|link)\b[^>]*>|<meta\b[^>]*(?:refresh|robots)[^>]*>""", re.IGNORECASE)
_LOADING = re.compile(
    rb"<(?:img|script|iframe|frame|embed|object|source|video|audio|track|input|form|body|table|td|use|image)\b[^>]*>",
    re.IGNORECASE,
)
_LOADED = re.compile(rb"\s(?:src|srcset|data|background|poster|action|xlink:href|href)" + _VALUE, re.IGNORECASE)
_STYLE = re.compile(rb"<style\b.*?</style>|\sstyle" + _VALUE, re.IGNORECASE | re.DOTALL)
_TEXT = re.compile(rb"<(script|style)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_ELSEWHERE = re.compile(
    rb"(?!https?:)[a-z][a-z0-9+.-]*:|#", re.IGNORECASE
)  # mailto:, javascript:, a place on this page


def corpus_pages(pages_max: int) -> tuple[list[bytes], list[str]]:
    """Pages without loading elements, and why packages are missing."""
    found: dict[int, bytes] = {}
    reasons = []
    for package, folders in PACKAGES.items():
        try:
            root = unpacked(package)
        except NotAvailable as error:
            reasons.append(str(error))
            continue
        for folder in folders:
            for page in _pages_of(root / folder):
                found.setdefault(zlib.crc32(page), page)
    return [found[key] for key in sorted(found)[:pages_max]], reasons


def _pages_of(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*.html")):
        if path.is_symlink() or not 0 < path.stat().st_size <= PAGE_BYTES_MAX:
            continue
        page = path.read_bytes()
        try:
            page.decode()
        except UnicodeDecodeError:
            continue
        if len(_TEXT.sub(b" ", page).split()) >= WORDS_MIN:
            page = _STYLE.sub(b"", _REMOVED.sub(b"", page))
            yield _LOADING.sub(lambda found: _LOADED.sub(b"", found[0]), page)


def relinked(page: bytes, number: int, total: int, url_of: Callable[[int], str], children: list[int]) -> bytes:
    """The page with its links leading into the corpus: equal links to equal pages. `children` are linked at the end, so
    that every page is reachable.
    """

    def replaced(found: re.Match[bytes]) -> bytes:
        target = found[2].strip(b"\"'").strip()
        if not target or _ELSEWHERE.match(target):
            return found[0]
        return found[1] + b'"' + url_of(zlib.crc32(target.partition(b"#")[0]) % total).encode() + b'"'

    page = _LINK.sub(replaced, page)
    more = "".join(f'<p><a href="{url_of(child)}">{number}.{child}</a></p>' for child in children).encode()
    at = page.lower().rfind(b"</body>")
    return page + more if at < 0 else page[:at] + more + page[at:]
