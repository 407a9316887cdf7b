"""The exception tree of Tarrafa: errors for people, each with a one-line message.

A failure of the Web is data (an `Outcome` with a status), never an exception. These errors are for people: each message
says what is wrong, where, and what to do, in one line; the command line prints it and exits with status 2.

    TarrafaError
    ├── ConfigError               an invalid collection file or option
    │   ├── NotFound              an unknown name
    │   └── RenderUnavailable     a machine without a browser that can be held (crawl/render/browser)
    ├── EditConflict              an edit of something that was changed meanwhile
    ├── DataError                 the data directory: wrong version, locked, damaged
    │   ├── DiskFull              no space left to write
    │   ├── Locked                another process uses it
    │   └── NotReady              the requested data is not there yet, and will be
    ├── QueryError                an invalid search query
    ├── QueryLimitExceeded        a query that needs more time or memory than allowed
    ├── Busy                      all query processes are in use: try again soon
    ├── ShardUnavailable          a shard of the index does not answer; the others may
    ├── HeldByLaw                 bytes that a legal hold keeps
    ├── PageTakenDown             a page that was taken down
    ├── CaptureNotShown           a page that asks not to be shown from an archive (noarchive)
    ├── FrontierError             the frontier refused or is unreachable
    │   ├── LeaseLost             this worker no longer holds the lease that it reports on: another worker may
    │   ├── Unreachable           the frontier does not answer; it may come back, and is worth waiting for
    │   └── AccessRefused         the frontier refuses this process: wrong token, another version; a retry does not help
    │       └── NameTaken         another living worker has that name
    └── ListenError               a port that cannot be listened on
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tarrafa.i18n import Message, message


class TarrafaError(Exception):
    """The root of the tree. The caller renders `message` in the language of its reader; `str` is the English text."""

    def __init__(self, message: Message | str = "") -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return str(self.message)


class ConfigError(TarrafaError):
    """An invalid collection file or option."""


class NotFound(ConfigError):
    """An unknown name: of a collection, a node, a preset."""


class EditConflict(TarrafaError):
    """An edit of something that was changed meanwhile."""


class DataError(TarrafaError):
    """The data directory cannot be used as it is."""


class DiskFull(DataError):
    """No space left to write."""


class Locked(DataError):
    """Another process uses it."""


class NotReady(DataError):
    """The requested data has not been made yet: nothing is wrong."""


class QueryError(TarrafaError):
    """An invalid search query."""


class QueryLimitExceeded(TarrafaError):
    """A query that needs more time or memory than allowed."""


class Busy(TarrafaError):
    """All query processes are in use; a retry may succeed."""


class ShardUnavailable(TarrafaError):
    """A shard of the index does not answer; the others may."""


class HeldByLaw(TarrafaError):
    """Bytes that a legal hold keeps: they are not erased."""


class PageTakenDown(TarrafaError):
    """The requested page was taken down."""


class CaptureNotShown(TarrafaError):
    """The requested page asks not to be shown from an archive."""


class FrontierError(TarrafaError):
    """The frontier refused or is unreachable."""


class LeaseLost(FrontierError):
    """This worker no longer holds the lease that it reports on."""


class Unreachable(FrontierError):
    """The frontier does not answer; it may come back."""


class AccessRefused(FrontierError):
    """The frontier refuses this process; a retry does not help."""


class NameTaken(AccessRefused):
    """Another living worker has that name."""


class ListenError(TarrafaError):
    """A port that cannot be listened on."""


DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def data_error_from_os(error: OSError, where: Path | str) -> DataError:
    """Turn an operating system's write error into a `DataError`."""
    if error.errno in DISK_FULL_ERRNOS:
        return DiskFull(
            message(
                "{where}: the disk is full ({error}); free some space and run the command again",
                where=where,
                error=str(error.strerror),
            )
        )
    return DataError(message("{where}: cannot write ({error})", where=where, error=str(error.strerror) or error))


@contextmanager
def write_errors(where: Path | str) -> Iterator[None]:
    """Raise an operating system's write error as a `DataError`."""
    try:
        yield
    except OSError as error:
        raise data_error_from_os(error, where) from None
