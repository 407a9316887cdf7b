"""The exception tree of Tarrafa: errors for people, each with a one-line message.

The Web failing is data (an `Outcome` with a status), never an exception. These are for people: each message says what
is wrong, where, and what to do, in one line; the command line prints it and exits with status 2.

    TarrafaError
    ├── ConfigError       a collection file or an option that cannot be meant
    │   └── NotFound   a name that nobody here knows
    ├── Stale             an edit of something that somebody else has changed meanwhile
    ├── DataError         the data directory: wrong version, locked, damaged
    │   ├── DiskFull      no space left where we must write
    │   ├── Locked        another process is at it
    │   └── NotYet        what is asked for has not been made yet, and will be
    ├── QueryError        a search that cannot be understood
    ├── TooCostly         a question that takes more time or memory than it may have
    ├── Busy              all who could answer are at it: ask again soon
    ├── ShardAway         a part of the index that does not answer; the others may
    ├── Withheld          a page that was taken down
    ├── FrontierError     the URL server refused or is out of reach
    │   ├── LeaseLost     this worker no longer holds what it reports on: somebody else may
    │   ├── Unreachable   it does not answer; it may come back, and is worth waiting for
    │   └── Refused       it answers and will not have us: wrong token, another version; asking again does not help
    │       └── NameTaken another living worker has that name
    └── ServeError        a port that cannot be listened on
"""

import errno
from pathlib import Path

from tarrafa.i18n import Message


class TarrafaError(Exception):
    """The root of the tree. A door renders `message` in the language of its reader; `str` is the English."""

    def __init__(self, message: Message | str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return str(self.message)


class ConfigError(TarrafaError):
    """A collection file or an option that cannot be meant."""


class NotFound(ConfigError):
    """A name that nobody here knows: of a collection, a node, a preset."""


class EditConflict(TarrafaError):
    """An edit of something that was changed meanwhile."""


class DataError(TarrafaError):
    """The data directory cannot be used as it is."""


class DiskFull(DataError):
    """No space left where we must write."""


class Locked(DataError):
    """Another process is at it."""


class NotReady(DataError):
    """What is asked for has not been made yet: nothing is wrong."""


class QueryError(TarrafaError):
    """A search that cannot be understood."""


class QueryLimitExceeded(TarrafaError):
    """A question that takes more time or memory than it may have."""


class Busy(TarrafaError):
    """All who could answer are at it; it is worth asking again."""


class ShardUnavailable(TarrafaError):
    """A part of the index that does not answer; the others may."""


class PageTakenDown(TarrafaError):
    """Somebody asks for what was taken down."""


class FrontierError(TarrafaError):
    """The URL server refused or is out of reach."""


class LeaseLost(FrontierError):
    """This worker no longer holds what it reports on."""


class Unreachable(FrontierError):
    """The URL server does not answer; it may come back."""


class AccessRefused(FrontierError):
    """The URL server will not have us, however often we ask."""


class NameTaken(AccessRefused):
    """Another living worker has that name."""


class ListenError(TarrafaError):
    """A port that cannot be listened on."""


DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def data_error_from_os(error: OSError, where: Path | str) -> DataError:
    """Turn an operating system's refusal to write into our own words."""
    if error.errno in DISK_FULL_ERRNOS:
        return DiskFull(f"{where}: the disk is full ({error.strerror}); free some space and run the command again")
    return DataError(f"{where}: cannot write ({error.strerror or error})")
