"""Orders for a node: parses them from a form and checks their limits.

Promises: checked orders can be applied; a refusal says what is possible. Typed text and numbers from programs have the
same bounds (`checked_orders`). Pure.
"""

from collections.abc import Sequence

import msgspec

from tarrafa.config.formats import parse_size
from tarrafa.coordinator.definitions.toml_writer import format_size
from tarrafa.coordinator.node.messages import ROLES, WORKERS_MAX, NodeOrders
from tarrafa.errors import ConfigError
from tarrafa.i18n import message

HOSTS_MAX = 100_000
BANDWIDTH_MIN, BANDWIDTH_MAX = 1_000, 1 << 40  # bytes a second
CPU_MIN = 0.01
TYPED_CHARS_MAX = 20


class NodeOrdersForm(msgspec.Struct, frozen=True):
    """The limits of a node as text in the fields of a form. Empty: as on its command line."""

    workers: str = ""
    hosts_at_once: str = ""
    bandwidth: str = ""
    cpu: str = ""  # percent


def form_from_orders(orders: NodeOrders) -> NodeOrdersForm:
    return NodeOrdersForm(
        "" if orders.workers is None else str(orders.workers),
        "" if orders.hosts_at_once is None else str(orders.hosts_at_once),
        "" if orders.bandwidth is None else format_size(orders.bandwidth),
        "" if orders.cpu is None else f"{orders.cpu * 100:g}",
    )


def orders_from_form(fields: NodeOrdersForm, roles: Sequence[str], *, paused: bool) -> NodeOrders:
    for name, text in msgspec.structs.asdict(fields).items():
        if len(text) > TYPED_CHARS_MAX:
            raise ConfigError(message("{name}: {text!r}… is too long", name=name, text=text[:TYPED_CHARS_MAX]))
    return checked_orders(
        NodeOrders(
            roles=tuple(roles),
            workers=_whole(fields.workers, "workers"),
            hosts_at_once=_whole(fields.hosts_at_once, "hosts at once"),
            bandwidth=_bandwidth(fields.bandwidth),
            cpu=_share(fields.cpu),
            paused=paused,
        )
    )


def checked_orders(orders: NodeOrders) -> NodeOrders:
    """The orders with their roles in order; `ConfigError` if no node could apply them."""
    unknown = [role for role in orders.roles if role not in ROLES]
    if unknown:
        raise ConfigError(message("roles: {role!r} is none of {roles}", role=unknown[0][:40], roles=", ".join(ROLES)))
    roles = tuple(role for role in ROLES if role in orders.roles)
    if not roles:
        raise ConfigError(message("a node needs at least one role; to stop its work, pause it"))
    _within(orders.workers, "workers", 0, WORKERS_MAX)
    _within(orders.hosts_at_once, "hosts at once", 1, HOSTS_MAX)
    if orders.bandwidth is not None and not BANDWIDTH_MIN <= orders.bandwidth <= BANDWIDTH_MAX:
        raise ConfigError(
            message("bandwidth: must be 1 KB to 1 TB a second, got {bandwidth} B", bandwidth=orders.bandwidth)
        )
    if orders.cpu is not None and not CPU_MIN <= orders.cpu <= 1:
        raise ConfigError(message("processor: must be 1 to 100 percent"))
    return msgspec.structs.replace(orders, roles=roles)


def _within(number: int | None, what: str, low: int, high: int) -> None:
    if number is not None and not low <= number <= high:
        raise ConfigError(
            message("{what}: must be {low} to {high}, got {number}", what=what, low=low, high=high, number=number)
        )


def _whole(text: str, what: str) -> int | None:
    if text and not (text.isascii() and text.isdigit()):
        raise ConfigError(message("{what}: must be a whole number, got {text!r}", what=what, text=text))
    return int(text) if text else None


def _bandwidth(text: str) -> int | None:
    try:
        return parse_size(text.removesuffix("/s").strip()) if text else None
    except ValueError as error:
        raise ConfigError(message("bandwidth: {error}", error=error.args[0])) from None


def _share(text: str) -> float | None:
    number = text.removesuffix("%").strip().replace(",", ".")
    try:
        return float(number) / 100 if number else None
    except ValueError:
        raise ConfigError(message("processor: must be 1 to 100 percent, got {text!r}", text=text)) from None
