"""Authenticates requests by bearer token, login session or local access, and signs users in.

    a program with the right token            admin, called `token`
    a browser with a session                  whoever signed in, with his role of now
    somebody at this machine                  admin, called `local`, where neither an account nor a token is defined
    anybody else                              nobody

Promises: once there is an account or a token, those at this machine must sign in, too: other people and programs on
it reach the same port, and the audit shall name people. Listening to other machines where nobody could sign in is
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

from tarrafa.coordinator.audit import AuditLog
from tarrafa.errors import ConfigError
from tarrafa.frontier.rpc.frontier_server import is_loopback
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_CHARACTERS_MAX, TOKEN_VARIABLE, Token
from tarrafa.server.auth.accounts import Accounts
from tarrafa.server.auth.login_throttle import LoginThrottle
from tarrafa.server.auth.passwords import PasswordVerifier
from tarrafa.server.auth.request_origin import client_address
from tarrafa.server.auth.sessions import LoginSession, LoginSessions, csrf_token
from tarrafa.server.security_headers import is_local_request

COOKIE = "tarrafa"
BEARER = "bearer "
HEADER_CHARS_MAX = TOKEN_CHARACTERS_MAX + 100


class AccessLevel(IntEnum):
    """Whom something is for. Each may what those before may."""

    OPEN = 0
    VIEWER = 1
    ADMIN = 2


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever asks. `how`: session, bearer, local, or nothing. `csrf` is what his forms bring along; never shown."""

    name: str
    role: AccessLevel
    how: str = ""
    csrf: str = ""
    session: LoginSession | None = None

    def __repr__(self) -> str:
        return f"Principal({self.name!r}, {self.role.name})"

    @property
    def is_anonymous(self) -> bool:
        return self.role is AccessLevel.OPEN


ANONYMOUS = Principal("nobody", AccessLevel.OPEN)
ROLE_LEVELS = {"viewer": AccessLevel.VIEWER, "admin": AccessLevel.ADMIN}


class LoginDelayed(Exception):
    """He must not try yet; for so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:.0f} s")
        self.seconds = seconds


class Authenticator:
    """Who may enter one data directory's console. `public` is the address that the site is known by; `signs_in`: there
    is a page where people can."""

    def __init__(
        self,
        data: DataDirectory,
        now: Callable[[], float],
        token: Token | None = None,
        public: str = "",
        behind_proxy: bool = False,
        audit: AuditLog | None = None,
        signs_in: bool = True,
    ) -> None:
        self.accounts, self.sessions, self.audit = (
            Accounts(data),
            LoginSessions(data, now),
            audit or AuditLog(data, now),
        )
        self.public, self.behind_proxy, self.signs_in = public.rstrip("/"), behind_proxy, signs_in
        self._token = token or Token()
        self._delays, self._verifier = LoginThrottle(now), PasswordVerifier()
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

    def check_listen_address(self, host: str) -> None:
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

    async def identify(self, connection: HTTPConnection) -> Principal:
        if connection.headers.get("authorization", "")[: len(BEARER)].lower() == BEARER:
            return Principal("token", AccessLevel.ADMIN, "bearer") if self.has_valid_token(connection) else ANONYMOUS
        secret = connection.cookies.get(self.cookie, "")
        if secret:
            known = await self._session_principal(secret)
            if known is not None:
                return known
        if self.is_local(connection) and not self._token and not self.accounts:
            return Principal("local", AccessLevel.ADMIN, "local", csrf_token(self._own))
        return ANONYMOUS

    def has_valid_token(self, connection: HTTPConnection) -> bool:
        """Whether it shows the right token."""
        given = connection.headers.get("authorization", "")[:HEADER_CHARS_MAX]
        return given[: len(BEARER)].lower() == BEARER and self._is_token(given[len(BEARER) :].strip())

    def is_local(self, connection: HTTPConnection) -> bool:
        """Whether whoever asks sits at this machine; behind a proxy nobody does."""
        return not self.behind_proxy and is_local_request(connection)

    def may_be_signed_in(self, connection: HTTPConnection) -> bool:
        """Whether it is worth while to show him where those go who are known; what he brings is looked at there."""
        return self.is_local(connection) or self.cookie in connection.cookies

    def client_address_of(self, connection: HTTPConnection) -> str:
        return client_address(connection, self.behind_proxy)

    async def _session_principal(self, secret: str) -> Principal | None:
        session = await self.sessions.find(secret)
        if session is None:
            return None
        role, mark = self._current_role(session.account)
        if role is None or not hmac.compare_digest(mark, session.mark):
            await self.sessions.end(session)
            return None
        return Principal(session.account, role, "session", csrf_token(secret), session)

    def _current_role(self, account: str) -> tuple[AccessLevel | None, str]:
        """The role and the mark of now."""
        if account == "token":
            return (AccessLevel.ADMIN, self._token_mark()) if self._token else (None, "")
        found = self.accounts.find(account)
        return (ROLE_LEVELS[found.role], found.mark) if found is not None else (None, "")

    # -- signing in and out ----------------------------------------------------------------------------------------

    async def sign_in(self, connection: HTTPConnection, name: str, password: str) -> tuple[str, str] | None:
        """A new session, as (name, secret); None if it was wrong. An empty name comes with the token."""
        address, account = self.client_address_of(connection), name or "token"
        wait_s = self._delays.wait_s(address, account)
        if wait_s:
            raise LoginDelayed(wait_s)
        self._delays.record_attempt(address, account)
        if name:
            found = self.accounts.find(name)
            right = await self._verifier.verify(password, found.hash if found is not None else None)
            mark = found.mark if found is not None else ""
        else:
            right, mark = self._is_token(password.strip()), self._token_mark()
        if not right:
            return None
        self._delays.record_success(address, account)
        return account, await self.sessions.begin(account, mark)

    def _is_token(self, given: str) -> bool:
        return bool(self._token) and hmac.compare_digest(given.encode(errors="replace"), self._token.secret)

    def _token_mark(self) -> str:
        """Another token ends what was signed in with this one."""
        return hashlib.sha256(b"tarrafa token " + self._token.secret).hexdigest()[:16]
