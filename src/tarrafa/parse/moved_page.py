"""Tells a page that only sends its readers on from a page with content of its own, and finds where small scripts lead.

A meta refresh is a redirect on a page that says nothing but "you are being redirected". On a page with content of its
own it is a link: a splash page, a news portal that reloads itself, a page behind a login. What counts as content is the
text outside links: from OWN_TEXT_MIN letters on, and from MOVED_TEXT_MAX on where the text speaks of a redirect.
A page with hardly any text whose script assigns `location` leads to the literal target: that is a link, never a
redirect, because the script may ask first (a language, a screen size).
Promises: pure; no script is executed; of a page with text nothing is scanned, and of the others at most SCRIPTS_MAX
scripts of SCRIPT_LENGTH_MAX characters.
Known weakness: a target that a script puts together is not found, but for `location.search` and `location.hash` at its
end, which are left out.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tarrafa.model import Page

if TYPE_CHECKING:  # a worker decides about redirects before it loads the parser: see `parser_with_sandbox`
    from turbohtml import Document

REFRESH_S_MAX = 5.0  # a page that refreshes later gives its readers time to read it
OWN_TEXT_MIN = 200  # characters of text outside links
MOVED_TEXT_MAX = 600  # the same of a text that speaks of a redirect
SCRIPTED_TEXT_MAX = 200  # a page with more text is not scanned for scripts
SCRIPTS_MAX, SCRIPT_LENGTH_MAX = 8, 4_096
TARGETS_MAX, TARGET_LENGTH_MAX = 4, 2_000

_SCRIPT_TYPES = frozenset({"", "text/javascript", "application/javascript", "module"})

_speaks_of_redirect = re.compile(
    r"redire[ckz]|redirig|weiterge?leitet|weiterleitung|umgeleitet|doorgestuurd|reindirizz|перенаправ|リダイレクト|重定向"
    r"|\bmoved\b|\bnew (?:address|location|url)\b|\bhas a new\b|click here|clique aqui|haga clic|haz clic|cliquez ici"
    r"|hier klicken|klicken sie hier|clicca qui|novo endere[cç]o|nueva direcci[oó]n|mudou|mudamos|automatically"
    r"|automaticamente|autom[aá]ticamente|automatiquement|automatisch|please wait|aguarde",
    re.IGNORECASE,
).search

_OWN_WINDOW = r"(?:(?:window|self|top|parent|document|this|globalThis)\s*\.\s*)*"
# `location = "…"`, `location.href = "…"`, `location.replace("…")`, with the string and what follows it.
_assigned = re.compile(
    r"(?<![\w$.])" + _OWN_WINDOW + r"location\s*(?:\.\s*href\s*)?"
    r"(?:=(?!=)\s*|\.\s*(?:replace|assign)\s*\(\s*)"
    r"""(?:"((?:[^"\\\n]|\\.){1,2000})"|'((?:[^'\\\n]|\\.){1,2000})'|`([^`$\\]{1,2000})`)(?=\s*(\+?[^;,)\n]{0,80}))""",
).finditer
_own_query = re.compile(
    r"(?:\+\s*" + _OWN_WINDOW + r"location\s*\.\s*(?:search|hash)\s*)+(?:\+\s*(?:\"\"|'')\s*)?"
).fullmatch
_escape = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL).sub


def sends_readers_on(page: Page) -> bool:
    """Whether the page is a redirect: it refreshes at once to another page, and has no content of its own."""
    return bool(page.refresh) and page.refresh_s < REFRESH_S_MAX and page.refresh != page.url and not _has_content(page)


def _has_content(page: Page) -> bool:
    own = len(page.text) - sum(len(link.anchor) for link in page.links)
    if own < OWN_TEXT_MIN:
        return False
    return own >= MOVED_TEXT_MAX or _speaks_of_redirect(page.text) is None


def script_targets(document: "Document", markup: str, text: str) -> list[str]:
    """The literal targets to which the scripts of a page with hardly any text send its readers, as written."""
    if len(text) > SCRIPTED_TEXT_MAX or "location" not in markup:
        return []
    found: dict[str, None] = {}
    for script in _scripts(document):
        for assigned in _assigned(script[:SCRIPT_LENGTH_MAX]):
            rest = assigned[4].strip()
            target = assigned[1] or assigned[2] or assigned[3]
            if (not rest.startswith("+") or _own_query(rest)) and len(found) < TARGETS_MAX:
                found[_escape(_unescaped, target)[:TARGET_LENGTH_MAX]] = None
    return list(found)


def _scripts(document: "Document") -> Iterator[str]:
    """The inline scripts of a page, and what its body does when it is loaded."""
    for element in document.find_all("script")[:SCRIPTS_MAX]:
        if element.attr("src") is None and (element.attr("type") or "").strip().lower() in _SCRIPT_TYPES:
            yield element.text
    for body in document.find_all("body")[:1]:
        yield body.attr("onload") or ""


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2]
    return chr(int(code, 16)) if code else escape[3]
