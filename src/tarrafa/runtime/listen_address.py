"""Loopback: whether a host is this machine, and whether other machines can reach an address of this one."""

import socket
from ipaddress import ip_address

from tarrafa.errors import ConfigError


def is_loopback_address(address: str) -> bool:
    """Whether that is an IP address by which a machine reaches itself; a name is none."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def is_loopback_host(host: str) -> bool:
    """Whether a host is certainly this machine: no name is looked up."""
    return host == "localhost" or is_loopback_address(host)


def is_listen_address_local(host: str, option: str) -> bool:
    """Whether only this machine can reach that address of its own. `option`: where it was given."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{option}: {host} is not an address of this machine ({error.strerror or error})") from None
    return all(is_loopback_address(str(one[4][0]).partition("%")[0]) for one in found)
