"""Sockets that the kernel refuses to a process that has given the network up."""

import os
import socket
import subprocess
import sys

import pytest

from tarrafa.runtime.sandbox import SOCKET_CALLS

SCRIPT = """
import ctypes, socket
from tarrafa.runtime.sandbox import PR_SET_NO_NEW_PRIVS, forbid_network_sockets
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
assert forbid_network_sockets(libc)
socket.socketpair()
for family in (socket.AF_UNIX, socket.AF_NETLINK, socket.AF_INET, socket.AF_INET6):
    try:
        socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_DGRAM)
        print(int(family), "opened")
    except PermissionError:
        print(int(family), "refused")
"""


@pytest.mark.skipif(os.uname().machine not in SOCKET_CALLS, reason="no filter for this architecture")
def test_network_sockets_are_refused_and_those_between_processes_are_not():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:4] == [
        f"{int(socket.AF_UNIX)} opened",
        f"{int(socket.AF_NETLINK)} opened",
        f"{int(socket.AF_INET)} refused",
        f"{int(socket.AF_INET6)} refused",
    ]
