"""Hostile hosts with contradictory charsets and with links in every spelling.

Promises: pages whose bytes, header and meta element disagree about the charset, and links as people and generators
write them. Each of them must be kept, because browsers read them all. Every charset page holds the text PORTUGUESE,
which is found only with the right charset.
Knows nothing of charset detection.
"""

from tarrafa.testweb.hostile.response_builders import HostileUrl, kept, lost, page, register_site
from tarrafa.testweb.http.web_response import HTML, WebResponse, typed

PORTUGUESE = "A maré não há de levar a canção: coração, pão, avô, saúde e açúcar às três da manhã."
_BOM = b"\xef\xbb\xbf"


def _page(title: str, declared: str = "") -> str:
    meta = f'<meta charset="{declared}">' if declared else ""
    return f'<!DOCTYPE html><html lang="pt">{meta}<title>{title}</title><p>{PORTUGUESE}</p></html>\n'


def _sent(title: str, codec: str, header: str = "", declared: str = "", mark: bytes = b"") -> HostileUrl:
    content_type = f"text/html; charset={header}" if header else "text/html"
    return kept(typed(200, content_type, mark + _page(title, declared).encode(codec)))


def _invalid() -> WebResponse:
    torn = "coração".encode()[:-2]
    return typed(200, HTML, _page("Bytes inválidos").encode() + b"\xff\xfe\x80<p>" + torn + b"</p>\xc3")


register_site(
    "charsets", "pages that are in another charset than they say, or in one that few expect",
    {
        "/header.html": _sent("O cabeçalho mente", "windows-1252", header="utf-8"),
        "/meta.html": _sent("A meta mente", "windows-1252", header="windows-1252", declared="utf-8"),
        "/both.html": _sent("A marca decide", "utf-8", header="iso-8859-1", declared="windows-1252", mark=_BOM),
        "/none.html": _sent("Ninguém diz", "windows-1252"),
        "/utf-16le.html": _sent("UTF-16, do menor", "utf-16-le", mark=b"\xff\xfe"),
        "/utf-16be.html": _sent("UTF-16, do maior", "utf-16-be", mark=b"\xfe\xff"),
        "/utf-16-meta.html": _sent("A meta não pode ser UTF-16", "utf-8", declared="utf-16"),
        "/unknown.html": _sent("Um nome que não existe", "utf-8", header="x-nada"),
        "/quoted.html": _sent("Entre aspas", "iso-8859-15", header='"ISO-8859-15"'),
        "/invalid.html": kept(_invalid()),
    },
)  # fmt: skip

# The href as written, and its target: WHATWG URL, "basic URL parser".
HREF_TARGETS = {
    "  /spaces.html  ": "/spaces.html",
    "/tab\tbed.html": "/tabbed.html",
    "/new\nline.html": "/newline.html",
    "/carriage\r\nreturn.html\r": "/carriagereturn.html",
    "\x01\x1f/control.html\x02": "/control.html",
    "/two words.html": "/two%20words.html",
    "/ação.html": "/a%C3%A7%C3%A3o.html",
    "\\backslash\\page.html": "/backslash/page.html",
    "http:/one-slash.html": "/one-slash.html",
    "/a/./b/../c/dots.html": "/a/c/dots.html",
    "/%7Etilde%2ehtml": "/~tilde.html",
    "/fragment.html#parte": "/fragment.html",
    "/quote'.html": "/quote'.html",
    "/amp.html?a=1&amp;b=2": "/amp.html?a=1&b=2",
    "HTTP://LINKS.corner.test:80/capitals.html": "/capitals.html",
    "//links.corner.test/without-scheme.html": "/without-scheme.html",
    "http://user:secret@links.corner.test/password.html": "/password.html",
}
HREFS_WITHOUT_TARGET = (
    "javascript:void(0)", "JavaScript:alert('a')", "java\nscript:alert(1)", "data:text/html,<p>nada", "mailto:a@b.test",
    "tel:+551234", "about:blank", "ftp://links.corner.test/", "file:///etc/passwd", "http://", "http://[::1", "//",
    "http://links.corner.test:99999/", "http://a b/", "http://%zz/", "", "#", "ws://links.corner.test/", "blob:nada",
)  # fmt: skip


def _links() -> WebResponse:
    written = "\n".join(f'<a href="{href}">ligação</a>' for href in (*HREF_TARGETS, *HREFS_WITHOUT_TARGET))
    return page("Ligações de todo tipo", body=f"<p>{written}</p>")


_BASED = '<p><a href="below.html">abaixo</a></p>'

register_site(
    "links", "links in every spelling, links that lead nowhere, and strange bases",
    {
        "/written.html": kept(_links()),
        **{target: kept(page(f"Escrita como {no}"), linked=False) for no, target in enumerate(HREF_TARGETS.values())},
        "/based/javascript.html": kept(page("Base que não é", body=_BASED, head='<base href="javascript:alert(1)">')),
        "/based/below.html": kept(page("Abaixo da página"), linked=False),
        "/based/elsewhere.html": kept(page("Base em outro lugar", body=_BASED, head='<base href="/other/place/">')),
        "/other/place/below.html": kept(page("Abaixo da base"), linked=False),
        "/based/host.html": kept(page(
            "Base em outra casa", body=_BASED, head='<base href="http://links-there.corner.test/">')),
        "/missing.html": lost(typed(404, HTML, b"<!DOCTYPE html><title>404</title>"), 404),
    },
)  # fmt: skip
register_site(
    "links-there", "a host that the base of another host's page leads to",
    {"/below.html": kept(page("Abaixo de uma base alheia"))},
)  # fmt: skip
