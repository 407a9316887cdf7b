"""A webhook and a mail server on loopback that say what a test tells them to, and keep what they are sent."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from tests.fetch.raw_server import RawServer
from tests.fetch.raw_server import _context as a_context

LINE_MAX = 1 << 16


@dataclass
class FakeWebhook:
    """Answers each request with the next of `statuses`, the last one from then on."""

    statuses: list[int]
    location: str = ""
    silent: bool = False
    port: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/s3cret?key=s3cret"

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append((first, headers, body))
            self.arrived.set()
            if self.silent:
                await reader.read()  # until the other side has had enough
                return
            status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
            location = f"Location: {self.location}\r\n" if self.location else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{location}Content-Length: 2\r\nConnection: close\r\n\r\nok".encode())
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def fake_webhook(
    *statuses: int, port: int = 0, location: str = "", silent: bool = False, certificate: str = ""
) -> AsyncIterator[FakeWebhook]:
    hook = FakeWebhook(list(statuses) or [200], location, silent)
    context = a_context(RawServer(), certificate) if certificate else None
    server = await asyncio.start_server(hook.connected, "127.0.0.1", port, ssl=context)
    hook.port = server.sockets[0].getsockname()[1]
    try:
        yield hook
    finally:
        server.close()


@dataclass
class FakeSmtpServer:
    """A small SMTP server. `refuse`: answered to RCPT; `drips`: greets one letter at a time; `tls`: offers STARTTLS."""

    refuse: str = ""
    drips: bool = False
    tls: bool = False
    port: int = 0
    commands: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)

    @property
    def letters(self) -> list[EmailMessage]:
        return [message_from_bytes(content, policy=default) for content in self.messages]

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.drips:
                while True:
                    writer.write(b"2")
                    await writer.drain()
                    await asyncio.sleep(0.02)  # a server that drips is what is tested
            writer.write(b"220 here\r\n")
            while line := await reader.readline():
                writer.write(self._answer(line.decode().rstrip("\r\n")))
                if line.upper().startswith(b"DATA"):
                    self.messages.append(await self._content(reader))
                    writer.write(b"250 kept\r\n")
                await writer.drain()
                if line.upper().startswith(b"QUIT"):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _content(self, reader: asyncio.StreamReader) -> bytes:
        content = b""
        while not content.endswith(b"\r\n.\r\n"):
            content += await reader.readuntil(b"\r\n")
        return content.removesuffix(b".\r\n").replace(b"\r\n..", b"\r\n.")

    def _answer(self, command: str) -> bytes:
        self.commands.append(command)
        verb = command.split(" ", maxsplit=1)[0].upper()
        if verb == "EHLO":
            extra = b"250-STARTTLS\r\n" if self.tls else b""
            return b"250-here\r\n" + extra + b"250-SMTPUTF8\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n"
        if verb == "RCPT" and self.refuse:
            return f"{self.refuse}\r\n".encode()
        known = {
            "DATA": b"354 go on\r\n",
            "AUTH": b"235 welcome\r\n",
            "QUIT": b"221 bye\r\n",
            "STARTTLS": b"454 not now\r\n",
        }
        return known.get(verb, b"250 ok\r\n")

    def server(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"


@asynccontextmanager
async def fake_smtp_server(
    port: int = 0, *, refuse: str = "", drips: bool = False, tls: bool = False
) -> AsyncIterator[FakeSmtpServer]:
    office = FakeSmtpServer(refuse, drips, tls)
    server = await asyncio.start_server(office.connected, "127.0.0.1", port, limit=LINE_MAX)
    office.port = server.sockets[0].getsockname()[1]
    try:
        yield office
    finally:
        server.close()
