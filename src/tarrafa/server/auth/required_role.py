"""The role that each route of the console and the API requires: every route declares it in a `GuardedRoute`.

Promises: a route without an access level cannot be constructed; an unsafe method is for admins, unless the route gives
a sentence why it is harmless. `role_and_csrf_guard` checks the role of each request, and that no route lacks a guard.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from starlette.responses import Response

from tarrafa.server.error_status import API_PATH

if TYPE_CHECKING:
    from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FORM_BYTES_MAX = 1 << 20
PROGRAM_SUFFIXES = (".json", "/metrics")  # errors of these paths are sent as to a program

Handler = Callable[["ConsoleRequest"], Awaitable[Response]]


class AccessLevel(IntEnum):
    """Who may use a route. Each level includes those before it."""

    OPEN = 0
    VIEWER = 1
    ADMIN = 2


@dataclass(frozen=True, slots=True)
class GuardedRoute:
    """One method of one path. `action` is its name in the audit log; `harmless` says why others than admins may use an
    unsafe method; `audited` is off only for messages that programs send every second. `here`: local requests may read
    without signing in (for a program that collects metrics).
    """

    method: str
    path: str
    need: AccessLevel
    handler: Handler
    action: str = ""
    harmless: str = ""
    audited: bool = True
    body_bytes_max: int = FORM_BYTES_MAX
    here: bool = False

    def __post_init__(self) -> None:
        where = f"{self.method} {self.path}"
        if not isinstance(self.need, AccessLevel):
            raise TypeError(f"{where}: needs an access level")
        if self.is_unsafe and self.need is not AccessLevel.ADMIN and not self.harmless:
            raise TypeError(f"{where}: an unsafe method for others than admins needs a reason (harmless)")
        if self.here and (self.is_unsafe or self.need is AccessLevel.ADMIN):
            raise TypeError(f"{where}: only a safe method for viewers can be open to local requests (here)")

    @property
    def is_unsafe(self) -> bool:
        return self.method not in SAFE_METHODS

    @property
    def is_for_programs(self) -> bool:
        return self.path.startswith(f"{API_PATH}/") or self.path.endswith(PROGRAM_SUFFIXES)
