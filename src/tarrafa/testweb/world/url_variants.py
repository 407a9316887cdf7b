"""Writes the same URL in many equivalent variants, as hrefs on the Web do.

Promises: in every variant, an href resolved by the URL standard against its page, without its fragment and default port
and with escapes normalised (RFC 3986 section 6.2.2), is the canonical URL of its target.
Knows nothing of why a page links to a target.
"""

from urllib.parse import unquote

from tarrafa.testweb.world.hosts import UrlForm, World
from tarrafa.testweb.world.page_links import WebLink


def canonical_url(world: World, form: UrlForm, no: int, target: str) -> str:
    """The canonical URL of a path."""
    return f"http://{world.authority(no, form)}{target}"


def write_href(world: World, form: UrlForm, link: WebLink, target: str, no: int, page: str) -> str:
    """The href of the link to path `target`, on a page at path `page` of host `no`, escaped for HTML. (For a page with
    `<base>`, `page` is the path of the base.)
    """
    spell = (_INSIDE if link.to.no == no else _OUTSIDE)[link.variant]
    if spell is _rooted:
        written = target
    else:
        if spell is _with_port and form.port:  # the URL already has a port
            spell = _absolute
        written = spell(world.authority(link.to.no, form), target, page)
    return written.replace("&", "&amp;") if "&" in written else written


def _rooted(authority: str, target: str, page: str) -> str:
    return target


def _absolute(authority: str, target: str, page: str) -> str:
    return f"http://{authority}{target}"


def _relative(authority: str, target: str, page: str) -> str:
    """Up to the root and down again; only a query where nothing else differs."""
    here, _, _ = page.partition("?")
    if "?" in target and target.partition("?")[0] == here:
        return target[len(here) :]
    return "../" * (here.count("/") - 1) + target[1:] or "./"


def _schemeless(authority: str, target: str, page: str) -> str:
    return f"//{authority}{target}"


def _upper_case(authority: str, target: str, page: str) -> str:
    return f"HTTP://{authority.upper()}{target}"


def _with_port(authority: str, target: str, page: str) -> str:
    return f"http://{authority}:80{target}"


def _with_fragment(authority: str, target: str, page: str) -> str:
    return f"http://{authority}{target}#p2"


def _dotted(authority: str, target: str, page: str) -> str:
    return f"/./x/..{target}"


def _escaped(authority: str, target: str, page: str) -> str:
    """One letter that needs no escape is escaped, in lower case."""
    return f"/%{ord(target[1]):02x}{target[2:]}" if len(target) > 1 else "/#"


def _raw(authority: str, target: str, page: str) -> str:
    """With spaces around it, and without the escapes that it needs."""
    return f" {unquote(target)} "


def _bare(authority: str, target: str, page: str) -> str:
    return f"http://{authority}{target if target != '/' else ''}"


_INSIDE = (*[_rooted] * 5, _absolute, _absolute, _relative, _relative, _schemeless, _upper_case, _with_port,
           _with_fragment, _dotted, _escaped, _raw)  # fmt: skip
_OUTSIDE = (*[_absolute] * 7, _bare, _bare, _schemeless, _upper_case, _with_port, _with_fragment, *[_absolute] * 3)
