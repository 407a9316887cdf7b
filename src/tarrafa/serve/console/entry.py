"""Who asks?

    a program with the right token            admin, called `token`
    a browser with a session                  whoever signed in, with his role of now
    somebody at this machine                  admin, called `local`, where neither an account nor a token is defined
    anybody else                              nobody

Promises: once there is an account or a token, those at this machine must sign in, too: other people and programs on it
reach the same port, and the audit shall name people. Listening to other machines where nobody could sign in is
refused before it begins. Whoever signs in learns only that it was wrong, never what; names that do not exist take as
long. The token is compared in constant time and never told.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from starlette.requests import HTTPConnection

from tarrafa.coordinate.audit import Audit
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError
from tarrafa.frontier.door import is_loopback
from tarrafa.frontier.token import TOKEN_CHARACTERS_MAX, TOKEN_VARIABLE, Token
from tarrafa.serve.console.accounts import Accounts
from tarrafa.serve.console.delays import Delays
from tarrafa.serve.console.origin import address_of
from tarrafa.serve.console.passwords import Verifier
from tarrafa.serve.console.sessions import Session, Sessions, csrf_of
from tarrafa.serve.shields import is_on_this_machine

COOKIE = "tarrafa"
BEARER = "bearer "
HEADER_CHARS_MAX = TOKEN_CHARACTERS_MAX + 100


class Need(IntEnum):
    """Whom something is for. Each may what those before may."""

    OPEN = 0
    VIEWER = 1
    ADMIN = 2


@dataclass(frozen=True, slots=True)
class Who:
    """Whoever asks. `how`: session, bearer, local, or nothing. `csrf` is what his forms bring along; never shown."""

    name: str
    role: Need
    how: str = ""
    csrf: str = ""
    session: Session | None = None

    def __repr__(self) -> str:
        return f"Who({self.name!r}, {self.role.name})"

    @property
    def is_nobody(self) -> bool:
        return self.role is Need.OPEN


NOBODY = Who("nobody", Need.OPEN)
ROLES = {"viewer": Need.VIEWER, "admin": Need.ADMIN}


class Wait(Exception):
    """He must not try yet; for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:.0f} s")
        self.seconds = seconds


class Entry:
    """Who may enter one data directory's console. `public` is the address that the site is known by; `signs_in`: there
    is a page where people can."""

    def __init__(
        self,
        data: DataDirectory,
        now: Callable[[], float],
        token: Token | None = None,
        public: str = "",
        behind_proxy: bool = False,
        audit: Audit | None = None,
        signs_in: bool = True,
    ) -> None:
        self.accounts, self.sessions, self.audit = Accounts(data), Sessions(data, now), audit or Audit(data, now)
        self.public, self.behind_proxy, self.signs_in = public.rstrip("/"), behind_proxy, signs_in
        self._token = token or Token()
        self._delays, self._verifier = Delays(now), Verifier()
        self._own = secrets.token_urlsafe()  # what the forms of those at this machine are made of

    @property
    def is_secure(self) -> bool:
        """Whether browsers come by https."""
        return self.public.startswith("https://")

    @property
    def cookie(self) -> str:
        """`__Host-`: no other host, and nobody without TLS, can set it (RFC 6265bis section 4.1.3.2)."""
        return f"__Host-{COOKIE}" if self.is_secure else COOKIE

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def check_listening(self, host: str) -> None:
        """Refuse to be reached by those who could not be told apart."""
        if self._token or self.accounts:
            return
        do = f"`tarrafa user add NAME`, or a token: --token-file FILE or the environment variable {TOKEN_VARIABLE}"
        if self.behind_proxy:
            raise ConfigError(
                f"--behind-proxy: others reach the console through the proxy, so somebody must be known: {do}"
            )
        if not is_loopback(host, "--host"):
            raise ConfigError(
                f"--host {host}: other machines can reach the console there, so somebody must be known: {do}"
            )

    def advice(self, host: str) -> str:
        """What those who start it should know; empty, if nothing."""
        if self.is_secure or is_loopback(host, "--host"):
            return ""
        do = "let a proxy speak TLS before it, and say --public-url https://…"
        return f"passwords and sessions cross the network in the clear: {do}"

    async def open(self) -> None:
        """Those who were signed in before a restart still are."""
        await asyncio.to_thread(self.sessions.load)

    # -- who asks --------------------------------------------------------------------------------------------------

    async def who(self, connection: HTTPConnection) -> Who:
        if connection.headers.get("authorization", "")[: len(BEARER)].lower() == BEARER:
            return Who("token", Need.ADMIN, "bearer") if self.is_program(connection) else NOBODY
        secret = connection.cookies.get(self.cookie, "")
        if secret:
            known = await self._signed_in(secret)
            if known is not None:
                return known
        if self.is_here(connection) and not self._token and not self.accounts:
            return Who("local", Need.ADMIN, "local", csrf_of(self._own))
        return NOBODY

    def is_program(self, connection: HTTPConnection) -> bool:
        """Whether it shows the right token."""
        given = connection.headers.get("authorization", "")[:HEADER_CHARS_MAX]
        return given[: len(BEARER)].lower() == BEARER and self._is_token(given[len(BEARER) :].strip())

    def is_here(self, connection: HTTPConnection) -> bool:
        """Whether whoever asks sits at this machine; behind a proxy nobody does."""
        return not self.behind_proxy and is_on_this_machine(connection)

    def may_be_known(self, connection: HTTPConnection) -> bool:
        """Whether it is worth while to show him where those go who are known; what he brings is looked at there."""
        return self.is_here(connection) or self.cookie in connection.cookies

    def address_of(self, connection: HTTPConnection) -> str:
        return address_of(connection, self.behind_proxy)

    async def _signed_in(self, secret: str) -> Who | None:
        session = await self.sessions.find(secret)
        if session is None:
            return None
        role, mark = self._standing(session.account)
        if role is None or not hmac.compare_digest(mark, session.mark):
            await self.sessions.end(session)
            return None
        return Who(session.account, role, "session", csrf_of(secret), session)

    def _standing(self, account: str) -> tuple[Need | None, str]:
        """The role and the mark of now."""
        if account == "token":
            return (Need.ADMIN, self._token_mark()) if self._token else (None, "")
        found = self.accounts.find(account)
        return (ROLES[found.role], found.mark) if found is not None else (None, "")

    # -- signing in and out ----------------------------------------------------------------------------------------

    async def sign_in(self, connection: HTTPConnection, name: str, password: str) -> tuple[str, str] | None:
        """A new session, as (name, secret); None if it was wrong. An empty name comes with the token."""
        address, account = self.address_of(connection), name or "token"
        wait_s = self._delays.wait_s(address, account)
        if wait_s:
            raise Wait(wait_s)
        self._delays.tried(address, account)
        if name:
            found = self.accounts.find(name)
            right = await self._verifier.is_right(password, found.hash if found is not None else None)
            mark = found.mark if found is not None else ""
        else:
            right, mark = self._is_token(password.strip()), self._token_mark()
        if not right:
            return None
        self._delays.was_right(address, account)
        return account, await self.sessions.begin(account, mark)

    def _is_token(self, given: str) -> bool:
        return bool(self._token) and hmac.compare_digest(given.encode(errors="replace"), self._token.secret)

    def _token_mark(self) -> str:
        """Another token ends what was signed in with this one."""
        return hashlib.sha256(b"tarrafa token " + self._token.secret).hexdigest()[:16]
