"""Hostile hosts with redirect chains, loops, redirects into private networks, meta refresh; private addresses.

Promises: every kind of redirect: good ones to pages that must be kept (once, however many redirects lead there), and
bad ones that lead to nothing, to themselves, into the crawler's own network, or on without end.
Knows nothing of the crawler's limit: the `CrawlExpectation` assumes that more than five redirects are too many.
"""

import re

from tarrafa.model import Status
from tarrafa.testweb.hostile.hostile_host import HostileExchange
from tarrafa.testweb.hostile.response_builders import (
    TEXT,
    HostileUrl,
    html,
    kept,
    lost,
    moved,
    page,
    register_site,
)
from tarrafa.testweb.http.web_response import HTML, WebResponse, typed

REDIRECTS_MAX = 5
LONG = 30

# Targets that a crawler must never reach: cloud metadata, its own machine in many spellings, its private network.
INSIDE = (
    "http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:9/", "http://[::ffff:127.0.0.1]/",
    "http://2130706433/", "http://0.0.0.0/", "http://10.0.0.1/", "http://localhost:9/",
)  # fmt: skip

# Roots at private and reserved addresses, never served: a crawl with its address guard on refuses each of them
# (ADDRESS_REFUSED) without a connection.
FORBIDDEN_ROOTS: tuple[str, ...] = (
    "http://127.0.0.1:1/",
    "http://127.1:1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0.0.0.0/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",  # carrier-grade NAT, RFC 6598
    "http://169.254.169.254/latest/meta-data/",
    "http://192.0.2.1/",  # documentation
    "http://224.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]:1/",
    "http://[::]/",
    "http://[::ffff:10.0.0.1]/",
    "http://[::ffff:127.0.0.1]:1/",
    "http://[64:ff9b::7f00:1]/",  # 127.0.0.1 by NAT64
    "http://[2002:7f00:1::]/",  # 127.0.0.1 by 6to4
    "http://[fe80::1]/",
    "http://[fd00::1]/",
    "http://[ff02::1]/",
)

_NUMBER = re.compile(r"(/[a-z]+/)(\d{1,9})$").match


def _hops(folder: str) -> dict[str, HostileUrl]:
    """The URLs that a crawler requests of a chain that is too long: five redirects, and one too many."""
    seen = {f"/{folder}/{number}": lost(moved(302, f"/{folder}/{number + 1}"), 302, linked=number == 1)
            for number in range(1, REDIRECTS_MAX + 1)}  # fmt: skip
    last = f"/{folder}/{REDIRECTS_MAX + 1}"
    beyond = moved(302, f"/{folder}/{REDIRECTS_MAX + 2}")
    return seen | {last: lost(beyond, Status.REDIRECTS_EXCEEDED, 302, linked=False)}


async def _onward(exchange: HostileExchange) -> None:
    """The rest of the long chains: one ends after LONG redirects, one never ends."""
    found = _NUMBER(exchange.request.target)
    if found is None:
        exchange.reply(typed(404, HTML, b"<!DOCTYPE html><title>404</title>"))
    elif found[1] == "/long/" and int(found[2]) >= LONG:
        exchange.reply(page("O fim de uma longa corrente"))
    else:
        exchange.reply(moved(302, f"{found[1]}{int(found[2]) + 1}"))


def _nowhere(status: int) -> WebResponse:
    return typed(status, HTML, b"<!DOCTYPE html><title>Mudou, mas para onde?</title>")


def _refreshes(seconds: float, target: str, title: str) -> WebResponse:
    return page(title, head=f'<meta http-equiv="refresh" content="{seconds:g}; url={target}">')


_ODD = (
    {f"/{status}": lost(moved(status, "/target.html"), status) for status in (301, 302, 303, 307, 308)}
    | {"/target.html": kept(page("Cinco caminhos levam aqui"), linked=False)}
    | {
        "/loop/a": lost(moved(302, "/loop/b"), 302, Status.REDIRECTS_EXCEEDED),
        "/loop/b": lost(moved(302, "/loop/a"), 302, Status.REDIRECTS_EXCEEDED, linked=False),
        "/self": lost(moved(302, "/self"), 302, Status.REDIRECTS_EXCEEDED),
        "/elsewhere": lost(moved(302, "http://redirects-there.corner.test/arrived.html"), 302),
        "/javascript": lost(moved(302, "javascript:alert(1)"), 302),
        "/unparsable": lost(moved(302, "http://[::1:2:3/"), 302),
        "/relative/here": lost(moved(302, "there.html"), 302),
        "/relative/there.html": kept(page("Um endereço relativo"), linked=False),
        "/utf8": lost(moved(302, "/informação.html"), 302),
        "/informa%C3%A7%C3%A3o.html": kept(page("Um endereço com acentos"), linked=False),
        "/without": lost(_nowhere(302), 302),
        "/300": lost(_nowhere(300), 300),
    }
    | {f"/inside/{number}": lost(moved(302, target), 302) for number, target in enumerate(INSIDE)}
)

_CHAIN = {f"/chain/{number}": lost(moved(301, f"/chain/{number + 1}"), 301, linked=number == 1) for number in (1, 2, 3)}

register_site(
    "redirects", "redirects of every kind, to one page, to nowhere, to themselves and into the crawler's own network",
    _ODD, never=("http://169.254.169.254", "http://127.0.0.1", "http://0.0.0.0", "http://10.0.0.1", "http://localhost"),
)  # fmt: skip
register_site(
    "redirects-there", "a host that another one redirects to", {"/arrived.html": kept(page("Chegada de longe"))}
)  # fmt: skip
register_site(
    "redirects-chain", "a chain of four redirects, which is followed, and one of thirty, which is not",
    _CHAIN | {
        "/chain/4": lost(moved(301, "/chain/end.html"), 301, linked=False),
        "/chain/end.html": kept(page("O fim de uma corrente"), linked=False),
    } | _hops("long"),
    otherwise=_onward, never=("/long/8", "/long/9"),
)  # fmt: skip
register_site(
    "maze", "every URL redirects to a new one",
    _hops("m"), otherwise=_onward, never=("/m/8", "/m/9"),
)  # fmt: skip
register_site(
    "refresh", "pages that send the reader on: a chain, a loop, one that gives time to read, one with content, scripts",
    {
        "/chain/1.html": lost(_refreshes(0, "/chain/2.html", "Passo 1"), 200),
        "/chain/2.html": lost(_refreshes(1, "3.html", "Passo 2"), 200, linked=False),
        "/chain/3.html": lost(_refreshes(0, "http://refresh.corner.test/chain/end.html", "Passo 3"), 200, linked=False),
        "/chain/end.html": kept(page("Último passo"), linked=False),
        "/loop/a.html": lost(_refreshes(0, "b.html", "Ida"), 200, Status.REDIRECTS_EXCEEDED),
        "/loop/b.html": lost(_refreshes(0, "a.html", "Volta"), 200, Status.REDIRECTS_EXCEEDED, linked=False),
        "/self.html": kept(_refreshes(0, "/self.html", "Sempre aqui")),
        "/splash.html": kept(page(
            "Bem-vindo", body=f"<p>{TEXT}</p>", head='<meta http-equiv="refresh" content="3; url=/entered.html">')),
        "/entered.html": kept(page("Depois da capa"), linked=False),
        "/script.html": kept(typed(200, HTML, b'<!DOCTYPE html><title>Mudou</title><script>location = "/scripted.html"'
                                              b"</script>")),
        "/scripted.html": kept(page("Depois do script"), linked=False),
        "/slow.html": kept(_refreshes(30, "/later.html", "Leia com calma")),
        "/later.html": kept(page("Trinta segundos depois"), linked=False),
        "/javascript.html": kept(typed(200, HTML, html(
            "Para lugar nenhum", head='<meta http-equiv="refresh" content="0; url=javascript:alert(1)">'))),
    },
)  # fmt: skip
