"""The resolver: what is looked up, what is not, and what a name may lead to."""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from pathlib import Path

import pytest

from tarrafa.fetch.address_guard import is_forbidden_address
from tarrafa.fetch.dns import ADDRESSES_MAX, DNS_CACHE_S, DnsAnswer, DnsResolver
from tests.fetch.fake_name_server import NameServer, a_name_server


async def resolve(name: str, allow_private: bool) -> DnsAnswer:
    resolver = DnsResolver()
    answer = await resolver.resolve(name, allow_private)
    await resolver.close()
    return answer


async def asking(
    answers: dict[str, list[str]],
    work: Callable[[DnsResolver], Awaitable[None]],
    then: dict[str, list[str]] | None = None,
    clock: Callable[[], float] = lambda: 0.0,
) -> NameServer:
    """Work with a resolver that asks a name server of our own."""

    async with a_name_server(answers, then) as server:
        resolver = DnsResolver([f"127.0.0.1:{server.port}"], clock)
        await work(resolver)
        await resolver.close()
        return server


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]"])
async def test_a_private_address_is_refused_by_default_and_allowed_when_asked_for(name):
    refused = await resolve(name, False)
    assert (refused.address, refused.refused) == (None, True)
    assert (await resolve(name, True)).address is not None


async def test_a_name_that_does_not_resolve_is_an_answer_not_an_exception():
    async def work(resolver: DnsResolver) -> None:
        for name in ("no-such-host.invalid", "..", "a..b", "-", "x" * 70, "\udcff.test", "[[::1]]", "127.0.0.1%lo"):
            answer = await resolver.resolve(name, False)
            assert (answer.address, answer.refused) == (None, False)
            assert "does not resolve" in str(answer.error)

    await asking({}, work)


async def test_rfc6761_localhost_is_never_looked_up():
    async def work(resolver: DnsResolver) -> None:
        for name in ("localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.localhost."):
            assert (await resolver.resolve(name, False)).refused
            assert (await resolver.resolve(name, True)).address == "127.0.0.1"

    public = {name: ["8.8.8.8"] for name in ("localhost", "a.localhost", "a.b.localhost")}
    assert (await asking(public, work)).asked == []


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["10.0.0.1", "192.168.0.1"], ["169.254.169.254"], ["::1"], ["fe80::1"], ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"], ["fd00:ec2::254"], ["alias.test"], ["0.0.0.0"],
    ],
)  # fmt: skip
async def test_a_name_that_leads_inside_is_refused_also_by_an_alias(addresses):
    async def work(resolver: DnsResolver) -> None:
        for name in ("inside.test", "inside.test."):
            answer = await resolver.resolve(name, False)
            assert (answer.address, answer.refused) == (None, True)

    await asking({"inside.test": addresses, "alias.test": ["other.test"], "other.test": ["10.9.8.7"]}, work)


async def test_of_several_addresses_one_that_is_allowed_is_taken():
    async def work(resolver: DnsResolver) -> None:
        assert (await resolver.resolve("mixed.test", False)).address == "8.8.8.8"
        assert (await resolver.resolve("mixed.test", True)).address == "10.0.0.1"
        assert (await resolver.resolve("six.test", False)).address == "2606:4700::1111"

    await asking({"mixed.test": ["::1", "10.0.0.1", "8.8.8.8"], "six.test": ["fe80::1", "2606:4700::1111"]}, work)


async def test_a_name_that_is_rebound_is_refused_as_soon_as_it_is_asked_again():
    now = 0.0

    async def work(resolver: DnsResolver) -> None:
        nonlocal now
        assert (await resolver.resolve("rebound.test", False)).address == "8.8.8.8"
        now += DNS_CACHE_S - 1
        assert (await resolver.resolve("rebound.test", False)).address == "8.8.8.8"
        now += 2
        answer = await resolver.resolve("rebound.test", False)
        assert (answer.address, answer.refused) == (None, True)

    await asking({"rebound.test": ["8.8.8.8"]}, work, {"rebound.test": ["127.0.0.1"]}, lambda: now)


async def test_names_are_looked_up_as_they_stand(monkeypatch, tmp_path):
    """Neither our own domain behind them, nor what HOSTALIASES makes of them."""
    aliases = tmp_path / "aliases"
    aliases.write_text("intranet public.test\n")
    monkeypatch.setenv("HOSTALIASES", str(aliases))
    monkeypatch.setenv("LOCALDOMAIN", "our-company.test")

    async def work(resolver: DnsResolver) -> None:
        assert (await resolver.resolve("intranet", False)).address is None

    server = await asking({"public.test": ["8.8.8.8"], "intranet.our-company.test": ["8.8.8.8"]}, work)
    assert set(server.asked) == {"intranet"}


async def test_the_hosts_file_opens_no_way_inside():
    entries = [line.partition("#")[0].split() for line in Path("/etc/hosts").read_text().splitlines()]
    names = [name for entry in entries for name in entry[1:] if entry and is_forbidden_address(entry[0])]
    if not names:
        pytest.skip("/etc/hosts leads nowhere inside")

    async def work(resolver: DnsResolver) -> None:
        for name in names:
            assert (await resolver.resolve(name, False)).address is None

    await asking({}, work)


@pytest.mark.parametrize("name", ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "10.1", "1.2.3.4.5"])
async def test_numbers_that_are_not_quite_an_address_never_lead_inside(name):
    """URLs have them in their normal form. Should one come as it is, what it is read as is vetted like any other."""

    async def work(resolver: DnsResolver) -> None:
        address = (await resolver.resolve(name, False)).address
        assert address is None or not is_forbidden_address(address)

    await asking({}, work)


async def test_a_name_with_countless_addresses_costs_no_more_than_some():
    async def work(resolver: DnsResolver) -> None:
        assert (await resolver.resolve("many.test", False)).address is not None
        assert len(resolver._cache["many.test"][1]) <= ADDRESSES_MAX

    await asking({"many.test": [str(ip_address("8.8.0.0") + number) for number in range(70)]}, work)


async def test_an_address_is_its_own_answer():
    async def work(resolver: DnsResolver) -> None:
        assert await resolver.resolve("[2606:4700::1111]", False) == DnsAnswer("2606:4700::1111")
        assert await resolver.resolve("8.8.8.8", False) == DnsAnswer("8.8.8.8")
        assert (await resolver.resolve("fe80::1%lo", False)).refused

    assert (await asking({}, work)).asked == []
