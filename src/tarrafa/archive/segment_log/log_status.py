"""Log status: how far the mirror of a machine is behind its segment log, and whether store and database answer.

DATA/run/log.json    written by the mirror about once a second
"""

from pathlib import Path

import msgspec

from tarrafa.runtime.data_dir import DataDirectory, write_atomically

STATUS_EVERY_S = 1.0
TROUBLE_CHARS_MAX = 300


class LogStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at`: when it was written, in seconds since the epoch. `behind`: segments that are not here yet; `behind_s`: the
    age of the oldest of them. The troubles are empty where store and database answered last."""

    at: float
    behind: int = 0
    behind_s: float = 0.0
    store_trouble: str = ""
    database_trouble: str = ""


def log_status_path(data: DataDirectory) -> Path:
    return data.run / "log.json"


def write_log_status(data: DataDirectory, status: LogStatus) -> None:
    write_atomically(log_status_path(data), msgspec.json.encode(status), durable=False)


def read_log_status(data: DataDirectory) -> LogStatus | None:
    """The last status; None: there is no mirror, or it has said nothing yet."""
    try:
        return msgspec.json.decode(log_status_path(data).read_bytes(), type=LogStatus)
    except (OSError, msgspec.MsgspecError):
        return None
