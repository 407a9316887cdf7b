"""Authenticates requests by bearer token, login session or local access, and signs users in.

    a program with the right token            admin, called `token`
    a browser with a session                  the signed-in user, with the present role
    a local request                           admin, called `local`, where neither an account nor a token is defined
    any other request                         nobody

Promises: once there is an account or a token, local users must sign in, too: other people and programs on this machine
reach the same port, and the audit log must name people. Listening to other machines where nobody could sign in is
refused at the start. A failed login does not say what was wrong; unknown names take as long as known ones. The token is
compared in constant time and never shown.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection

from tarrafa.coordinator.audit import AuditLog
from tarrafa.errors import ConfigError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.listen_address import is_listen_address_local
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.server.auth.accounts import Accounts
from tarrafa.server.auth.bearer_token import bearer_token
from tarrafa.server.auth.login_throttle import LoginThrottle
from tarrafa.server.auth.passwords import PasswordVerifier
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies, client_address, is_local_request
from tarrafa.server.auth.required_role import AccessLevel
from tarrafa.server.auth.sessions import LoginSession, LoginSessions, csrf_token

COOKIE = "tarrafa"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated client. `how`: session, bearer, local, or nothing. `csrf` is the token for its forms; never
    shown.
    """

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
    """The next login attempt is allowed after this many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"wait {seconds:.0f} s")
        self.seconds = seconds


class Authenticator:
    """Authenticates requests to the console of one data directory. `public` is the public URL of the site; `signs_in`:
    there is a login page.
    """

    def __init__(
        self,
        data: DataDirectory,
        now: Callable[[], float],
        token: Token | None = None,
        public: str = "",
        proxies: TrustedProxies = NO_PROXIES,
        audit: AuditLog | None = None,
        signs_in: bool = True,
    ) -> None:
        self.accounts, self.sessions, self.audit = (
            Accounts(data),
            LoginSessions(data, now),
            audit or AuditLog(data, now),
        )
        self.public, self.proxies, self.signs_in = public.rstrip("/"), proxies, signs_in
        self._token = token or Token()
        self._delays, self._verifier = LoginThrottle(now), PasswordVerifier()
        self._own = secrets.token_urlsafe()  # key of the CSRF tokens of local users

    @property
    def is_secure(self) -> bool:
        """Whether browsers use https."""
        return self.public.startswith("https://")

    @property
    def cookie(self) -> str:
        """`__Host-`: no other host, and no connection without TLS, can set it (RFC 6265bis section 4.1.3.2)."""
        return f"__Host-{COOKIE}" if self.is_secure else COOKIE

    @property
    def cookie_options(self) -> dict[str, Any]:
        return {"path": "/", "secure": self.is_secure, "httponly": True, "samesite": "lax"}

    @property
    def has_token(self) -> bool:
        return bool(self._token)

    def check_listen_address(self, host: str) -> None:
        """Refuse to listen to clients that cannot be authenticated."""
        if self._token or self.accounts:
            return
        do = f"`tarrafa user add NAME`, or a token: --token-file FILE or the environment variable {TOKEN_VARIABLE}"
        if self.proxies:
            raise ConfigError(
                f"--behind-proxy: others reach the console through the proxy, so an account or token is needed: {do}"
            )
        if not is_listen_address_local(host, "--host"):
            raise ConfigError(
                f"--host {host}: other machines can reach the console there, so an account or token is needed: {do}"
            )

    def advice(self, host: str) -> str:
        """A warning for the operator; empty, if there is none."""
        if self.is_secure or is_listen_address_local(host, "--host"):
            return ""
        do = "put a proxy with TLS before it, and set --public-url https://…"
        return f"passwords and sessions cross the network in the clear: {do}"

    async def open(self) -> None:
        """Load the sessions from before a restart."""
        await asyncio.to_thread(self.sessions.load)

    # -- authentication --------------------------------------------------------------------------------------------

    async def identify(self, connection: HTTPConnection) -> Principal:
        if bearer_token(connection.headers) is not None:
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
        """Whether the request has the right token."""
        given = bearer_token(connection.headers)
        return given is not None and self._is_token(given)

    def is_local(self, connection: HTTPConnection) -> bool:
        """Whether the request comes from this machine; behind a proxy none does."""
        return not self.proxies and is_local_request(connection)

    def may_be_signed_in(self, connection: HTTPConnection) -> bool:
        """Whether to show a link to the console: the request has a session cookie or similar, which the console itself
        checks.
        """
        return self.is_local(connection) or self.cookie in connection.cookies

    def client_address_of(self, connection: HTTPConnection) -> str:
        return client_address(connection, self.proxies)

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
        """The present role and mark."""
        if account == "token":
            return (AccessLevel.ADMIN, self._token_mark()) if self._token else (None, "")
        found = self.accounts.find(account)
        return (ROLE_LEVELS[found.role], found.mark) if found is not None else (None, "")

    # -- signing in and out ----------------------------------------------------------------------------------------

    async def sign_in(self, connection: HTTPConnection, name: str, password: str) -> tuple[str, str] | None:
        """A new session, as (name, secret); None if the login failed. An empty name means a login by token."""
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
            right, mark = self._is_token(password.strip().encode(errors="replace")), self._token_mark()
        if not right:
            return None
        self._delays.record_success(address, account)
        return account, await self.sessions.begin(account, mark)

    def _is_token(self, given: bytes) -> bool:
        return bool(self._token) and hmac.compare_digest(given, self._token.secret)

    def _token_mark(self) -> str:
        """A new token ends the sessions of the old one."""
        return hashlib.sha256(b"tarrafa token " + self._token.secret).hexdigest()[:16]
