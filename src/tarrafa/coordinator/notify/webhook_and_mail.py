"""Sends notifications: a signed webhook over HTTP, and e-mail over SMTP.

One attempt per call, bounded in time and size; retries are the outbox's. Promises: TLS is verified and redirects are
not followed; the text of a collection's name or of a sentence never becomes a header, a command or a second message;
neither the mail server's password nor the path of a webhook, which is often a secret, appears in an error. Private
addresses are allowed: the owner of the crawl wrote them.
"""

import hashlib
import hmac
import os
import smtplib
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
import pycurl

from tarrafa import __version__
from tarrafa.config.formats import EMAIL
from tarrafa.errors import ConfigError
from tarrafa.fetch.certificates import ca_bundle
from tarrafa.i18n import Message, joined, message
from tarrafa.runtime.listen_address import is_loopback_host

SMTP_VARIABLE, FROM_VARIABLE = "TARRAFA_SMTP", "TARRAFA_MAIL_FROM"
SECRET_VARIABLE = "TARRAFA_WEBHOOK_SECRET"  # noqa: S105 (its name)
WEBHOOK_TIMEOUT_S = 10.0  # in all
MAIL_TIMEOUT_S = 10.0  # for each command
MAIL_TIME_MAX_S = 30.0  # in all
ERROR_CHARS_MAX = 300
SENTENCE_CHARS_MAX = 500
LINE_CHARS_MAX = 3_000  # of a mail: a whole URL
NUMBERS_MAX = 50
ENCODED_WORD = "=?"  # RFC 2047
WATCH_EVENT = "watch"
SUBMISSION_PORTS = {"smtp": 587, "smtps": 465}


class DeliveryFailed(Exception):
    """An attempt that failed, in one line for people."""

    def __init__(self, message: Message | str) -> None:
        super().__init__(str(message))
        self.message = message


class NoticeItem(msgspec.Struct, frozen=True):
    """A page that a notice is about. `link`: where this site shows its change; empty: the address is not known."""

    kind: str
    url: str
    title: str
    link: str


class Notice(msgspec.Struct, frozen=True):
    """An event. Its `id` is the same at each attempt, so that a receiver recognises a repetition. Of a watch,
    `collection` is its number, and `link` its feed."""

    id: str
    collection: str
    event: str  # started, finished, failed, stalled; watch
    at: float
    sentence: str
    numbers: dict[str, int | float] = {}
    items: tuple[NoticeItem, ...] = ()
    link: str = ""

    @property
    def is_of_watch(self) -> bool:
        return self.event == WATCH_EVENT


@dataclass(frozen=True, slots=True)
class MailServer:
    """`secure`: TLS from the first byte on; otherwise STARTTLS if the server offers it."""

    host: str
    port: int
    secure: bool
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class NotifyEnvironment:
    """Mail server, sender and webhook secret, from the environment: never in a command line or a collection's file."""

    mail: MailServer | None = None
    sender: str = ""
    secret: bytes = field(default=b"", repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "NotifyEnvironment":
        mail, sender = environment.get(SMTP_VARIABLE, ""), environment.get(FROM_VARIABLE, "")
        if sender and not EMAIL.fullmatch(sender):
            raise ConfigError(f"{FROM_VARIABLE}: must be one address such as crawl@example.br")
        secret = environment.get(SECRET_VARIABLE, "").encode("utf-8", "surrogateescape")
        return cls(parse_mail_server(mail) if mail else None, sender, secret)

    def mail_trouble(self) -> Message | str:
        """Why no e-mail can be sent; empty: it can."""
        if self.mail is None:
            return message(
                "no e-mail can be sent: set {variable}=smtps://USER:PASSWORD@HOST:PORT and start again",
                variable=SMTP_VARIABLE,
            )
        if not self.sender:
            return message(
                "no e-mail can be sent: set {variable} to the sender address, and start again", variable=FROM_VARIABLE
            )
        return ""


def parse_mail_server(text: str) -> MailServer:
    """From `smtp[s]://user:password@host:port`. The error does not repeat the text: it holds a password."""
    wrong = ConfigError(f"{SMTP_VARIABLE}: must look like smtp://HOST:PORT or smtps://USER:PASSWORD@HOST:PORT")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in SUBMISSION_PORTS or not parts.hostname or parts.path.strip("/") or parts.query:
        raise wrong
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise wrong
    return MailServer(parts.hostname, port or SUBMISSION_PORTS[parts.scheme], parts.scheme == "smtps", user, password)


def one_line(text: str, chars_max: int) -> str:
    """The text without line ends and other unprintable characters."""
    plain = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return plain if len(plain) <= chars_max else plain[: chars_max - 1] + "…"


def post_webhook(address: str, notice: Notice, environment: NotifyEnvironment) -> None:
    """Send to a webhook, as signed JSON. Only a status of 2xx means that it was delivered."""
    body = msgspec.json.encode(_webhook_fields(notice))
    headers = {
        "Content-Type": "application/json",
        "X-Tarrafa-Event": notice.event,
        "X-Tarrafa-Id": notice.id,
        "Expect": "",
    }
    if environment.secret:
        signature = hmac.new(environment.secret, body, hashlib.sha256).hexdigest()
        headers["X-Tarrafa-Signature"] = f"sha256={signature}"
    status = _http_post(address, body, [f"{name}: {one_line(value, 200)}" for name, value in headers.items()])
    if not 200 <= status < 300:
        answered = message("{server} answered {code}", server=webhook_origin(address), code=str(status))
        hint = message("redirects are not followed; write the address that it leads to")
        raise DeliveryFailed(joined([answered, hint], ": ") if 300 <= status < 400 else answered)


def _webhook_fields(notice: Notice) -> dict[str, Any]:
    fields = msgspec.structs.asdict(notice) | {"at": _iso_date(notice)}
    if notice.is_of_watch:
        fields["watch"] = fields.pop("collection")
        return fields
    return {name: value for name, value in fields.items() if name not in ("items", "link")}


def _http_post(address: str, body: bytes, headers: list[str]) -> int:
    """The status of the response; its body is dropped."""
    curl = pycurl.Curl()
    try:
        curl.setopt(pycurl.URL, address)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.NOSIGNAL, 1)  # we are in a thread
        curl.setopt(pycurl.TIMEOUT_MS, int(WEBHOOK_TIMEOUT_S * 1000))
        if (authorities := ca_bundle()) is not None:
            curl.setopt(pycurl.CAINFO, authorities)
        curl.setopt(pycurl.USERAGENT, f"Tarrafa/{__version__}")
        curl.setopt(pycurl.HTTPHEADER, headers)
        curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.WRITEFUNCTION, len)  # read, and dropped
        curl.perform()
        return int(curl.getinfo(pycurl.RESPONSE_CODE))
    except pycurl.error as error:
        # libcurl's messages name hosts and ports, never the path.
        raise DeliveryFailed(f"{webhook_origin(address)}: {one_line(str(error.args[-1]), ERROR_CHARS_MAX)}") from None
    except UnicodeError:
        raise DeliveryFailed(
            message("{server}: the address cannot be sent as it is; write it in ASCII", server=webhook_origin(address))
        ) from None
    finally:
        curl.close()


def webhook_origin(address: str) -> str:
    """A webhook as it may be shown: without user, path and query, which may be secret."""
    try:
        parts = urlsplit(address)
        return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "the webhook"


def send_email(address: str, notice: Notice, environment: NotifyEnvironment) -> None:
    """Send to one e-mail address, as plain text."""
    mail = environment.mail
    if mail is None or not environment.sender:
        raise DeliveryFailed(environment.mail_trouble())
    server = f"{mail.host}:{mail.port}"
    try:
        content = _email_message(address, notice, environment.sender)
        _smtp_session(mail, environment.sender, address, content)
    except smtplib.SMTPResponseException as error:
        response = error.smtp_error.decode("utf-8", "replace") if isinstance(error.smtp_error, bytes) else ""
        text = one_line(response, ERROR_CHARS_MAX)
        raise DeliveryFailed(
            message("{server} answered {code}: {error}", server=server, code=str(error.smtp_code), error=text)
        ) from None
    except smtplib.SMTPRecipientsRefused as error:
        code, refusal = next(iter(error.recipients.values()))
        text = one_line(refusal.decode("utf-8", "replace"), ERROR_CHARS_MAX)
        raise DeliveryFailed(
            message("{server} refuses {address}: {error}", server=server, address=address, error=f"{code} {text}")
        ) from None
    except MessageError:
        raise DeliveryFailed(
            message("{address} is no address that can be written to", address=one_line(address, 100))
        ) from None
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise DeliveryFailed(f"{server}: {one_line(str(error), ERROR_CHARS_MAX) or type(error).__name__}") from None


def _email_message(address: str, notice: Notice, sender: str) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    if ENCODED_WORD in address + sender:
        raise MessageError
    # Python decodes encoded words when a header is set, line ends inside them too, and writes those as they are.
    about = notice.sentence if notice.is_of_watch else f"{notice.collection}: {notice.event}"
    subject = one_line(f"[Tarrafa] {about}", 150).replace(ENCODED_WORD, "= ?")
    message["Subject"] = subject
    message["From"] = Address("Tarrafa", addr_spec=sender)
    message["To"] = Address(addr_spec=address)
    message["Date"] = format_datetime(datetime.fromtimestamp(notice.at, UTC))
    mark = hashlib.sha256(f"{notice.id}\n{address}".encode()).hexdigest()[:24]
    message["Message-ID"] = f"<{mark}@{sender.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no automatic replies
    message["X-Tarrafa-Event"] = one_line(notice.event, 50).replace(ENCODED_WORD, "= ?")
    message["X-Tarrafa-Id"] = one_line(notice.id, 100).replace(ENCODED_WORD, "= ?")
    lines = [notice.sentence, ""]
    lines += [f"{name.replace('_', ' ')}: {value:,.6g}" for name, value in notice.numbers.items()]
    for item in notice.items:
        lines += ["", f"{item.kind}: {item.title}" if item.title else item.kind, item.url, *filter(None, [item.link])]
    about = notice.collection if notice.is_of_watch else f"collection {notice.collection}"
    lines += ["", *filter(None, [notice.link]), f"{about}, {_iso_date(notice)}, notice {notice.id}"]
    message.set_content("\n".join(one_line(line, LINE_CHARS_MAX) for line in lines) + "\n")
    return message


class _TimeLimitedSmtp(smtplib.SMTP):
    """Hangs up after MAIL_TIME_MAX_S: a server that sends a byte every few seconds passes any limit of single reads."""

    _watchdog: threading.Timer | None = None

    def connect(self, host: str = "localhost", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        self._watchdog = threading.Timer(MAIL_TIME_MAX_S, self._hang_up)
        self._watchdog.daemon = True
        self._watchdog.start()
        try:
            return super().connect(host, port, source_address)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        super().close()

    def _hang_up(self) -> None:
        connection = self.sock
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _TimeLimitedSmtpTls(_TimeLimitedSmtp, smtplib.SMTP_SSL):
    """The same, with TLS from the first byte on."""


def _smtp_session(mail: MailServer, sender: str, address: str, content: EmailMessage) -> None:
    # EHLO has the sender's domain: to look up this machine's own name may take a resolver minutes.
    hello = sender.rpartition("@")[2].encode("idna").decode()
    if mail.secure:
        server: _TimeLimitedSmtp = _TimeLimitedSmtpTls(
            mail.host, mail.port, hello, timeout=MAIL_TIMEOUT_S, context=_tls_context()
        )
    else:
        server = _TimeLimitedSmtp(mail.host, mail.port, hello, timeout=MAIL_TIMEOUT_S)
    try:
        server.ehlo_or_helo_if_needed()
        if not mail.secure and server.has_extn("starttls"):
            server.starttls(context=_tls_context())
            server.ehlo_or_helo_if_needed()
        elif not mail.secure and mail.user and not is_loopback_host(mail.host):
            where = f"{mail.host}:{mail.port}"
            raise DeliveryFailed(
                message("{server} offers no TLS: the password is not sent; use smtps://", server=where)
            )
        if mail.user:
            server.login(mail.user, mail.password)
        server.send_message(content, sender, [address])
        with suppress(smtplib.SMTPException, OSError):  # the message was accepted: QUIT may fail
            server.quit()
    finally:
        server.close()


def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca_bundle())


def _iso_date(notice: Notice) -> str:
    return datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="seconds")
