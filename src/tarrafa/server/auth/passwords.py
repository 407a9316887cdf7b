"""Hashes and verifies passwords with Argon2id.

Argon2id, with the second parameters that RFC 9106 recommends (64 MiB, 3 passes, 4 lanes; some 150 ms here). Promises:
at most AT_ONCE_MAX passwords are verified at once, in threads, so that memory stays below 128 MiB and a processor is
left for other work, and WAITING_MAX wait; further ones get a busy error. An unknown account takes as long as a known
one. A password is never stored, shown or logged.
"""

import asyncio
import unicodedata

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from tarrafa.errors import Busy, ConfigError
from tarrafa.i18n import message

CHARACTERS_MIN, CHARACTERS_MAX = 10, 1_000
VERIFICATIONS_MAX = 2
WAITING_MAX = 16
MEMORY_KIB, PASSES, LANES = 64 << 10, 3, 4

_hasher = PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=LANES)
# The hash of an unknown password: unknown names are compared with it.
DUMMY_HASH = "$argon2id$v=19$m=65536,t=3,p=4$AAECAwQFBgcICQoLDA0ODw$AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


def check_password(password: str) -> str:
    """A valid new password, normalized."""
    password = normalize_password(password)
    if not CHARACTERS_MIN <= len(password) <= CHARACTERS_MAX:
        raise ConfigError(
            message(
                "a password has {least} to {most} characters, not {count}",
                least=CHARACTERS_MIN,
                most=CHARACTERS_MAX,
                count=len(password),
            )
        )
    return password


def normalize_password(password: str) -> str:
    """The same password whatever the keyboard's composition of letters (RFC 8265: NFC)."""
    return unicodedata.normalize("NFC", password[: CHARACTERS_MAX + 1])


def hash_password(password: str) -> str:
    """The hash to store."""
    return _hasher.hash(check_password(password))


def verify_password(password: str, kept: str | None) -> bool:
    """Whether the password matches the hash `kept`. None: there is no such account, and it takes as long."""
    try:
        right = _hasher.verify(kept or DUMMY_HASH, normalize_password(password))
    except (Argon2Error, InvalidHashError):
        return False
    return right and kept is not None


class PasswordVerifier:
    """Verifies passwords, a few at a time."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(VERIFICATIONS_MAX)
        self._waiting = 0

    async def verify(self, password: str, kept: str | None) -> bool:
        if self._waiting >= WAITING_MAX:
            raise Busy(message("too many people sign in at once; try again in a few seconds"))
        self._waiting += 1
        try:
            async with self._turns:
                return await asyncio.to_thread(verify_password, password, kept)
        finally:
            self._waiting -= 1
