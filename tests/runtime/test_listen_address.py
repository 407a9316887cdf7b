"""Which addresses are this machine, and which of them other machines can reach."""

import pytest

from tarrafa.errors import ConfigError
from tarrafa.runtime.listen_address import is_listen_address_local, is_loopback_address, is_loopback_host


@pytest.mark.parametrize(
    ("host", "is_address", "is_host"),
    [
        ("127.0.0.1", True, True),
        ("127.9.9.9", True, True),
        ("::1", True, True),
        ("localhost", False, True),
        ("localhost.example", False, False),
        ("192.0.2.1", False, False),
        ("0.0.0.0", False, False),
        ("", False, False),
    ],
)
def test_a_host_is_this_machine_by_its_loopback_address_or_as_localhost(host, is_address, is_host):
    assert (is_loopback_address(host), is_loopback_host(host)) == (is_address, is_host)


def test_an_address_that_others_can_reach_is_not_local():
    assert is_listen_address_local("127.0.0.1", "--host")
    assert is_listen_address_local("localhost", "--host")
    assert not is_listen_address_local("0.0.0.0", "--host")
    assert not is_listen_address_local("192.0.2.1", "--host")


def test_what_is_no_address_is_refused_with_its_option():
    with pytest.raises(ConfigError, match=r"--listen: .* is not an address of this machine"):
        is_listen_address_local("not an address", "--listen")
