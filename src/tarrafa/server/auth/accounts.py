"""User accounts of the console, kept in DATA/accounts.json.

The file is readable by its owner only: names, roles, and password hashes. Promises: the file holds the old accounts or
the new ones, whatever happens in between; two concurrent changes both succeed; a serving process sees a change with the
next request. Every account has a mark that changes with its password or role: sessions with another mark are invalid.
Knows nothing of HTTP.
"""

import fcntl
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec
from msgspec.structs import replace

from tarrafa.errors import ConfigError, DataError, data_error_from_os
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, sync_directory
from tarrafa.server.auth.passwords import hash_password

FILE = "accounts.json"
FILE_BYTES_MAX = 1 << 20
ACCOUNTS_MAX = 1_000
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
RESERVED = frozenset({"local", "token", "nobody"})  # names in the audit log for principals without an account

AccountRole = Literal["viewer", "admin"]


class Account(msgspec.Struct, frozen=True):
    """A user. `mark` changes when the password or the role does."""

    name: str
    role: AccountRole
    hash: str
    mark: str
    created: float
    changed: float

    def __repr__(self) -> str:
        return f"Account({self.name!r}, {self.role!r}, hidden)"


class AccountView(msgspec.Struct, frozen=True):
    """A user without secrets."""

    name: str
    role: AccountRole
    created: float
    changed: float


class _AccountsFile(msgspec.Struct, frozen=True):
    accounts: list[Account]


class Accounts:
    """The accounts of one data directory, for any number of threads."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = data.root / FILE
        self._lock = threading.Lock()
        self._state: tuple[int, ...] | None = None
        self._known: dict[str, Account] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._read())

    def find(self, name: str) -> Account | None:
        return self._read().get(name)

    def must_find(self, name: str) -> Account:
        return _require(name, self._read())

    def all_accounts(self) -> list[AccountView]:
        known = sorted(self._read().values(), key=lambda one: one.name)
        return [AccountView(one.name, one.role, one.created, one.changed) for one in known]

    def add(self, name: str, role: AccountRole, password: str, now: float) -> None:
        if not NAME.fullmatch(name) or name in RESERVED:
            allowed = "letters, digits and . _ @ -, at most 64 of them, and not local, token or nobody"
            raise ConfigError(f"user {name[:80]!r}: a name has {allowed}")
        account = Account(name, role, hash_password(password), _new_mark(), now, now)

        def change(known: dict[str, Account]) -> None:
            if name in known:
                raise ConfigError(f"user {name}: exists already; `tarrafa user password {name}` changes the password")
            if len(known) >= ACCOUNTS_MAX:
                raise ConfigError(f"user {name}: there are {ACCOUNTS_MAX:,} accounts already, the maximum")
            known[name] = account

        self._change(change)

    def set_password(self, name: str, password: str, now: float) -> None:
        """Set the password; all sessions of that user end."""
        made = hash_password(password)

        def change(known: dict[str, Account]) -> None:
            known[name] = replace(_require(name, known), hash=made, mark=_new_mark(), changed=now)

        self._change(change)

    def remove(self, name: str) -> None:
        def change(known: dict[str, Account]) -> None:
            del known[_require(name, known).name]

        self._change(change)

    def _read(self) -> dict[str, Account]:
        with self._lock:
            state = file_fingerprint(self._path)
            if state != self._state:
                self._known, self._state = self._decoded() if state else {}, state
            return self._known

    def _decoded(self) -> dict[str, Account]:
        try:
            with self._path.open("rb") as file:
                if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                    raise DataError(f"{self._path}: other users can read or change it; `chmod 600 {self._path}`")
                content = file.read(FILE_BYTES_MAX + 1)
            accounts = msgspec.json.decode(content, type=_AccountsFile).accounts
        except OSError as error:
            raise DataError(f"{self._path}: cannot be read ({error.strerror or error})") from None
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            advice = f"{error}; put a copy back, or remove it and add the users again"
            raise DataError(f"{self._path}: is damaged ({advice})") from None
        return {account.name: account for account in accounts}

    def _change(self, change: Callable[[dict[str, Account]], None]) -> None:
        with self._exclusive_lock():
            known = dict(self._read())
            change(known)
            content = msgspec.json.format(msgspec.json.encode(_AccountsFile(list(known.values()))), indent=1)
            self._write(content)

    def _write(self, content: bytes) -> None:
        """As `data.write_atomically`, but never readable by others, not even for a moment."""
        temporary = self._path.with_name(f"{FILE}.new")
        try:
            temporary.unlink(missing_ok=True)
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            sync_directory(self._path.parent)
        except OSError as error:
            raise data_error_from_os(error, self._path) from None

    @contextmanager
    def _exclusive_lock(self) -> Iterator[None]:
        """One process changes the accounts at a time."""
        try:
            file = self._path.with_name(f"{FILE}.lock").open("ab")
        except OSError as error:
            raise data_error_from_os(error, self._path) from None
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _require(name: str, known: dict[str, Account]) -> Account:
    found = known.get(name)
    if found is None:
        raise ConfigError(f"user {name[:80]}: does not exist; `tarrafa user list` shows all users")
    return found


def _new_mark() -> str:
    return secrets.token_hex(8)
