"""Login sessions of browsers, kept in DATA/coordinator.sqlite, and their CSRF tokens.

Promises: a session is 256 random bits that only its browser knows; only their hash is stored, in
`DATA/coordinator.sqlite`, so that a restart ends no session and reading the file gives no access. A session ends IDLE_S
after its last use, ABSOLUTE_S after its start, when its user signs out, and when the account's mark changes. At most
SESSIONS_MAX are kept, PER_ACCOUNT_MAX of one account: those used last. A look-up needs no disk access. Knows nothing of
HTTP or of passwords.
"""

import asyncio
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from typing import cast

import msgspec
from msgspec.structs import replace

from tarrafa.coordinator.store import store_transaction
from tarrafa.runtime.data_dir import DataDirectory

ID_BYTES = 32
IDLE_S, ABSOLUTE_S = 8 * 3_600.0, 7 * 86_400.0
LAST_USE_EVERY_S = 60.0  # precision of the stored last use
SESSIONS_MAX, PER_ACCOUNT_MAX = 1_000, 20
ID_CHARACTERS = len(secrets.token_urlsafe(ID_BYTES))

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id BLOB PRIMARY KEY, account TEXT NOT NULL, mark TEXT NOT NULL, begun REAL NOT NULL, seen REAL NOT NULL
) WITHOUT ROWID;
"""


_Row = tuple[bytes, str, str, float, float]


class LoginSession(msgspec.Struct, frozen=True):
    """A signed-in browser. `id` is the hash of its secret."""

    id: bytes
    account: str
    mark: str
    begun: float
    seen: float


def csrf_token(secret: str) -> str:
    """The token that a form of this session must contain. It cannot be computed without the session."""
    return hmac.new(secret.encode(), b"tarrafa form", hashlib.sha256).hexdigest()


class LoginSessions:
    """The sessions of one data directory; one process owns them."""

    def __init__(self, data: DataDirectory, now: Callable[[], float]) -> None:
        self._path, self._now, self._lock = data.coordinator, now, threading.Lock()
        self._known: dict[bytes, LoginSession] = {}

    def load(self) -> None:
        """Load the stored sessions. The only call here that waits for the disk."""
        with self._lock, store_transaction(self._path, SCHEMA) as connection:
            rows = connection.execute("SELECT id, account, mark, begun, seen FROM sessions").fetchall()
            found = [LoginSession(*cast(_Row, row)) for row in rows]
            gone = [session for session in found if self._is_expired(session)]
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(session.id,) for session in gone])
        self._known = {session.id: session for session in found if not self._is_expired(session)}

    async def begin(self, account: str, mark: str) -> str:
        """A new session; the returned secret is for the browser alone."""
        secret, now = secrets.token_urlsafe(ID_BYTES), self._now()
        session = LoginSession(_hash(secret), account, mark, now, now)
        self._known[session.id] = session
        dropped = self._excess_sessions(account)
        for one in dropped:
            self._known.pop(one.id, None)
        await asyncio.to_thread(self._write, [session], dropped)
        return secret

    async def find(self, secret: str) -> LoginSession | None:
        """The session of a secret; None if it has ended."""
        if len(secret) != ID_CHARACTERS or not secret.isascii():
            return None
        session = self._known.get(_hash(secret))
        if session is None:
            return None
        if self._is_expired(session):
            await self.end(session)
            return None
        now = self._now()
        if now - session.seen >= LAST_USE_EVERY_S:
            session = self._known[session.id] = replace(session, seen=now)
            await asyncio.to_thread(self._touch, session)
        return session

    async def end(self, session: LoginSession) -> None:
        self._known.pop(session.id, None)
        await asyncio.to_thread(self._write, [], [session])

    def _is_expired(self, session: LoginSession) -> bool:
        now = self._now()
        return now - session.seen > IDLE_S or now - session.begun > ABSOLUTE_S

    def _excess_sessions(self, account: str) -> list[LoginSession]:
        by_use = sorted(self._known.values(), key=lambda session: -session.seen)
        own = [session for session in by_use if session.account == account]
        return [*own[PER_ACCOUNT_MAX:], *by_use[SESSIONS_MAX:]]

    def _touch(self, session: LoginSession) -> None:
        """Update the last use; a session that has ended meanwhile stays ended."""
        with self._lock, store_transaction(self._path, SCHEMA) as connection:
            connection.execute("UPDATE sessions SET seen = ? WHERE id = ?", (session.seen, session.id))

    def _write(self, begun: list[LoginSession], ended: list[LoginSession]) -> None:
        with self._lock, store_transaction(self._path, SCHEMA) as connection:
            rows = [msgspec.structs.astuple(session) for session in begun]
            connection.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(session.id,) for session in ended])


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
