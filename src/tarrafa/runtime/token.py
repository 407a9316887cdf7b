"""The shared token that authenticates machines to each other, loaded from a file or the environment.

The token comes from the environment or from a file that no other user can read, never from the command line, where
every user of the machine could read it. It is never printed.
"""

import os
import stat
from pathlib import Path

from tarrafa.errors import ConfigError

TOKEN_VARIABLE = "TARRAFA_TOKEN"  # noqa: S105 (a name, not a token)
TOKEN_CHARACTERS_MIN, TOKEN_CHARACTERS_MAX = 16, 1024  # a short one can be guessed from a recorded handshake
HOW_TO_MAKE_A_TOKEN = "`(umask 077; openssl rand -hex 32 > token)` makes a good one"  # noqa: S105 (a command)
TOKEN_ON_COMMAND_LINE = (
    "everybody on this machine can read a token on the command line: "
    f"put it into a file and use --token-file FILE, or into the environment variable {TOKEN_VARIABLE}"
)


class Token:
    """A secret that two machines share. Empty: no token."""

    __slots__ = ("secret",)

    def __init__(self, secret: bytes = b"") -> None:
        self.secret = secret

    def __bool__(self) -> bool:
        return bool(self.secret)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and other.secret == self.secret

    def __hash__(self) -> int:
        return hash(self.secret)

    def __repr__(self) -> str:
        return "Token(hidden)" if self.secret else "Token(none)"


NO_TOKEN = Token()


def load_token(file: Path | None) -> Token:
    """The token from the file, else from the environment, else none."""
    if file is not None:
        return _validated(_read(file), str(file))
    text = os.environ.get(TOKEN_VARIABLE, "")
    return _validated(text, TOKEN_VARIABLE) if text.strip() else NO_TOKEN


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            if stat.S_IMODE(mode) & 0o077:
                raise ConfigError(f"{file}: other users can read this token; `chmod 600 {file}`, or make a new one")
            return opened.read(TOKEN_CHARACTERS_MAX + 100).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: a token is plain text; {HOW_TO_MAKE_A_TOKEN}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot read the token ({error.strerror or error})") from None


def _validated(text: str, where: str) -> Token:
    """The secret without surrounding white space, such as a file's last line end."""
    text = text.strip()
    if not TOKEN_CHARACTERS_MIN <= len(text) <= TOKEN_CHARACTERS_MAX or not text.isprintable():
        raise ConfigError(
            f"{where}: a token is one line of {TOKEN_CHARACTERS_MIN} to {TOKEN_CHARACTERS_MAX:,} characters; "
            f"{HOW_TO_MAKE_A_TOKEN}"
        )
    return Token(text.encode())
