"""Hostile hosts whose responses are malformed HTTP: lengths, status lines, headers, chunks, resets.

Promises: responses that break RFC 9110 and 9112 in one point each. A response that browsers show is a page; a response
that nobody can read is invalid and costs one URL. Faults that look like a failing host (nothing sent, a reset) have a
host of their own each, because a crawler gives up a host that fails often.
Knows nothing of the content of a body.
"""

from tarrafa.model import Status
from tarrafa.testweb.hostile.content_codings import chunked
from tarrafa.testweb.hostile.hostile_host import HostileExchange, HostileHandler
from tarrafa.testweb.hostile.response_builders import PIECE, either, flood, header, html, kept, lost, raw, register_site
from tarrafa.testweb.http.web_response import HTML, WebResponse

LINE_BYTES = 300_000
LINES = 100_000
HINT_PAUSE_S = 0.01

_INVALID = Status.INVALID_RESPONSE


def _lengths(title: str, *lengths: str, cut: int = 0) -> HostileHandler:
    """A page with these Content-Length headers; the connection ends after it."""
    body = html(title)
    lines = [f"Content-Length: {length.format(len(body))}" for length in lengths]
    return raw(200, header(*lines) + body[: len(body) - cut])


def _chunks(data: bytes) -> HostileHandler:
    return raw(200, header("Transfer-Encoding: chunked") + data)


def _folded() -> bytes:
    body = html("Página com cabeçalhos dobrados e repetidos")
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n\tcharset=utf-8\r\nX-Folded: a\r\n b\r\n c\r\n"
        b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nServer: um\r\nServer: dois\r\n"
        b"Connection: close\r\nContent-Length: %d\r\nContent-Length: %d\r\n\r\n%b" % (len(body), len(body), body)
    )


def _part() -> WebResponse:
    return WebResponse(206, html("Uma parte"), f"Content-Type: {HTML}\r\nContent-Range: bytes 0-99/999\r\n")


def _untyped(body: bytes) -> HostileHandler:
    return raw(200, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def _hints(exchange: HostileExchange) -> None:
    """Early hints (RFC 8297), without end."""
    exchange.status = 103
    while True:
        await exchange.send(b"HTTP/1.1 103 Early Hints\r\nLink: </estilo.css>; rel=preload\r\n\r\n")
        await exchange.sleep(HINT_PAUSE_S)


async def _reset(exchange: HostileExchange) -> None:
    body = html("Página interrompida")
    exchange.status = 200
    await exchange.send(header(f"Content-Length: {len(body)}") + body[:200])
    exchange.abort()


async def _empty(exchange: HostileExchange) -> None:
    exchange.close()


_BODY = html("Página depois de um aviso")

register_site(
    "lengths", "Content-Length is too long, too short, negative, no number, or two numbers",
    {
        "/long.html": kept(_lengths("Mais curta que o prometido", "100000")),
        "/short.html": kept(_lengths("Mais longa que o prometido", "300")),
        "/negative.html": either(_lengths("Menos que nada", "-5"), 200, _INVALID),
        "/word.html": either(_lengths("Muitos bytes", "muitos"), 200, _INVALID),
        "/two.html": either(_lengths("Dois tamanhos", "{0}", "99"), 200, _INVALID),
        "/huge.html": lost(_lengths("Enorme", "99999999999999999999999999"), Status.TOO_LARGE, _INVALID),
        "/none.html": kept(_lengths("Até o fim da conexão")),
    },
)  # fmt: skip
register_site(
    "status-lines", "first lines that are none, and numbers that no standard knows",
    {
        "/0.9.html": lost(raw(0, html("Como em 1991")), _INVALID),
        "/999.html": lost(raw(999, b"HTTP/1.1 999 Nada\r\nConnection: close\r\n\r\n"), _INVALID, 999),
        "/letters.html": lost(raw(0, b"HTTP/1.1 duzentos OK\r\nContent-Length: 0\r\n\r\n"), _INVALID),
        "/noise.html": lost(raw(0, b"\x16\x03\x01\x00\xff" * 40), _INVALID),
        "/ssh.html": lost(raw(0, b"SSH-2.0-OpenSSH_9.2\r\n"), _INVALID),
        "/short.html": kept(raw(200, b"HTTP/1.0 200\r\nContent-Type: text/html\r\n\r\n" + html("Sem uma palavra"))),
    },
)  # fmt: skip
register_site(
    "headers", "header blocks that are folded, doubled, full of NULs, or far too large",
    {
        "/folded.html": kept(raw(200, _folded())),
        "/bare.html": kept(raw(200, header().replace(b"\r", b"") + html("Sem retorno de carro"))),
        "/nul.html": either(raw(200, header("X-Nada: a\0b") + html("Com um zero no cabeçalho")), _INVALID, 200),
        "/colon.html": either(raw(200, header("isto nada diz") + html("Sem dois pontos")), 200, _INVALID),
        "/line.html": lost(raw(200, lambda: header("X: " + "a" * LINE_BYTES) + b"nada"), _INVALID, Status.TOO_LARGE),
        "/lines.html": lost(raw(200, lambda: header(*["a: b"] * LINES) + b"nada"), _INVALID, Status.TOO_LARGE),
        "/endless.html": lost(
            flood(b"HTTP/1.1 200 OK\r\n", (b"X-Mais: " + b"a" * 990 + b"\r\n") * 64), _INVALID, Status.TOO_LARGE
        ),
    },
)  # fmt: skip
register_site(
    "untyped", "answers without a Content-Type: a page, a text, and something else",
    {
        "/page.html": kept(_untyped(html("Página sem tipo"))),
        "/noise": lost(_untyped(bytes(range(256)) * 8), Status.TYPE_NOT_WANTED, 200),
    },
)  # fmt: skip
register_site(
    "unasked", "204, 206 and 304 that were not requested, and a page after a hint",
    {
        "/204.html": lost(WebResponse(204), 204),
        "/206.html": either(_part(), 206),
        "/304.html": lost(WebResponse(304), 304),
        "/100.html": kept(raw(200, b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
                              + header(f"Content-Length: {len(_BODY)}") + _BODY)),
    },
)  # fmt: skip
register_site("hints", "1xx for ever", {"/103.html": lost(_hints, _INVALID, Status.TOO_LARGE, Status.TOO_SLOW)})
register_site(
    "empty", "a connection that ends before a byte",
    {"/empty.html": lost(_empty, Status.SYSTEM_ERROR, _INVALID)}, requests_more=2,
)  # fmt: skip
register_site(
    "reset", "a connection that is reset in the middle of a page",
    {"/reset.html": either(_reset, Status.SYSTEM_ERROR, 200)},
)  # fmt: skip
register_site(
    "chunks", "chunks that end too soon, or without their last",
    {
        "/cut.html": kept(_chunks(chunked(html("Página sem o último pedaço"))[:-20])),
        "/bare.html": either(_chunks(b"5\nabcde\n0\n\n"), 200, _INVALID),
    },
)  # fmt: skip
for _name, _about, _data in (
    ("chunk-word", "a chunk whose length is no number", b"zz\r\nabc\r\n0\r\n\r\n"),
    ("chunk-negative", "a chunk whose length is negative", b"-5\r\nabc\r\n0\r\n\r\n"),
    ("chunk-huge", "a chunk whose length no number can hold", b"FFFFFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n"),
):
    register_site(_name, _about, {"/chunks.html": lost(_chunks(_data), _INVALID, Status.SYSTEM_ERROR)})
register_site(
    "chunk-digits", "a chunk whose length has digits without end",
    {"/chunks.html": lost(flood(header("Transfer-Encoding: chunked"), b"0" * PIECE), _INVALID, Status.SYSTEM_ERROR,
                          Status.TOO_LARGE)},
)  # fmt: skip
