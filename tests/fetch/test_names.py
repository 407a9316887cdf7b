"""The address guard and the resolver."""

import asyncio

import pytest

from tarrafa.fetch.names import Answer, Resolver, forbidden


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
     "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
     "2002:7f00:1::", "ff02::1", "198.18.0.1", "192.0.2.1"],
)  # fmt: skip
def test_addresses_that_are_not_on_the_public_internet_are_forbidden(address):
    assert forbidden(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "200.160.2.3", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_allowed(address):
    assert not forbidden(address)


def resolve(name: str, allow_private: bool) -> Answer:
    async def scene() -> Answer:
        resolver = Resolver()
        answer = await resolver.resolve(name, allow_private)
        await resolver.close()
        return answer

    return asyncio.run(scene())


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
def test_a_private_address_is_refused_by_default_and_allowed_when_asked_for(name):
    refused = resolve(name, False)
    assert (refused.address, refused.refused) == (None, True)
    assert resolve(name, True).address is not None


def test_a_name_that_does_not_resolve_is_an_answer_not_an_exception():
    answer = resolve("no-such-host.invalid", False)
    assert (answer.address, answer.refused) == (None, False)
    assert "does not resolve" in answer.error
