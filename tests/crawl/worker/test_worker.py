"""A worker at work: it shows what lets it in, and hears what people decide meanwhile."""

import gzip
import os
import time
from base64 import b64encode
from itertools import pairwise

import uvloop

from tarrafa import credentials
from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.worker import worker
from tarrafa.credentials import Credential
from tarrafa.model import Status
from tarrafa.runtime.data_dir import DataDirectory
from tests.crawl.worker.worker_harness import (
    numbers,
    running_worker,
    submit,
    wait_until_nothing_is_out,
    wait_until_nothing_waits,
)
from tests.fetch.fake_name_server import a_name_server
from tests.fetch.fake_proxy import a_proxy
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, links, scripted_web
from tests.wait import wait_until

TIMER_S = 0.002
NEW_NAME = "Rede"


def a_table(
    web: ScriptedWeb, roots: list[str], scope: dict[str, object] | None = None, **politeness: object
) -> dict[str, object]:
    return {
        "name": "c",
        "roots": roots,
        "scope": {"hosts": ["*.test"]} | (scope or {}),
        "politeness": {"delay": 0.02, "delay_factor": 0} | politeness,
        "network": {"connect_to": {"*.test": f"127.0.0.1:{web.port}"}},
    }


def big_host(url: str, _: int) -> ScriptedResponse | None:
    """Two directories of pages, no two alike."""
    if url.endswith("/robots.txt"):
        return None
    said = links(*(f"/{kind}/{number}" for number in range(400) for kind in ("good", "bad")))
    return ScriptedResponse(said.body + f"<p>{' '.join(url)}".encode(), headers=said.headers)


async def test_a_site_that_wants_a_password_a_cookie_or_a_key_gets_it_and_no_other_does(tmp_path):
    password, session, key = "a-password-of-mine", "sid=0123456789abcdef0123", "key-9f8e7d6c5b4a"
    basic = b64encode(f"ana:{password}".encode()).decode()
    wanted = {"basic": ("Authorization", f"Basic {basic}"), "cookie": ("Cookie", session), "key": ("X-Key", key)}
    web: list[ScriptedWeb] = []

    def answer(url: str, _: int) -> ScriptedResponse | None:
        host, path = url.split("/", 3)[2:]
        asked = next(one for one in reversed(web[0].asked) if one.url == url).headers
        name, value = wanted.get(host.removesuffix(".test"), ("", None))
        if name and asked.get(name) != value:
            return ScriptedResponse(code=401)
        if path == "robots.txt":
            return ScriptedResponse(b"User-agent: *\nDisallow: /no\n", headers={"Content-Type": "text/plain"})
        if path == "away":
            news = {"Set-Cookie": f"{session}; Path=/"} if name == "Cookie" else {}  # as servers prolong a session
            return ScriptedResponse(code=302, headers={"Location": "http://open.test/landing"} | news)
        return links("/inside", "/away", "/no", *(f"http://{name}.test/" for name in wanted))

    with scripted_web(answer) as served:
        web.append(served)
        async with running_worker(tmp_path) as (frontier, data):
            for host, kind, name, value in (
                ("basic.test", "basic", "ana", password),
                ("cookie.test", "cookie", "", session),
                ("key.test", "header", "X-Key", key),
            ):
                credentials.add(data, "c", Credential((host,), kind, name, value))  # type: ignore[arg-type]
            await submit(frontier, a_table(web[0], ["http://open.test/"]))
            await wait_until_nothing_waits(frontier)
        kept = {entry.record.url for entry in follow(data.archive, {}) if entry.record.outcome.kept}
        expected = {f"http://{host}.test/{page}" for host in (*wanted, "open") for page in ("", "inside")}
        assert kept == expected | {"http://open.test/landing"}
        archived = b"".join(gzip.decompress(path.read_bytes()) for path in data.archive.glob("*.gz"))
    for one in served.asked:
        name, value = wanted.get(one.url.split("/")[2].removesuffix(".test"), ("", ""))
        shown = {key: said for key, said in one.headers.items() if key in ("Authorization", "Cookie", "X-Key")}
        assert shown == ({name: value} if name else {}), one.url
        assert not one.url.endswith("/no"), "its rules were behind the same door"
    assert not [one for one in (password, basic, session, key) if one.encode() in archived]
    assert all(f"\r\n{name}: (withheld)\r\n".encode() in archived for name, _ in wanted.values())


async def test_what_is_edited_holds_for_a_host_that_is_being_walked(tmp_path):
    with scripted_web(big_host) as web:
        async with running_worker(tmp_path) as (frontier, _):
            await submit(frontier, a_table(web, ["http://big.test/"]))
            await wait_until(lambda: any("/bad/" in url for url in web.urls()), "it is at work")
            scope: dict[str, object] = {"exclude": ["*/bad/*"]}
            await submit(frontier, a_table(web, ["http://big.test/"], scope, delay=0.1, user_agent=NEW_NAME))
            await wait_until(lambda: len(named(web)) >= 6, "the new name is used")
            await frontier.set_state("c", "stopped", "by a test")
            await wait_until_nothing_is_out(frontier)
            assert (await numbers(frontier)).statuses[str(int(Status.OUT_OF_SCOPE))]
    first = next(number for number, one in enumerate(web.asked) if one.headers["User-Agent"].startswith(NEW_NAME))
    since = [one for one in web.asked[first:] if one.url.endswith(tuple("0123456789"))]
    assert len(since) >= 6
    assert all(one.headers["User-Agent"].startswith(NEW_NAME) for one in since), "and no other name any more"
    assert not [one.url for one in since if "/bad/" in one.url]
    assert all(later.at - one.at >= 0.1 - TIMER_S for one, later in pairwise(since))


def named(web: ScriptedWeb) -> list[str]:
    return [one.url for one in web.asked if one.headers["User-Agent"].startswith(NEW_NAME)]


async def test_a_pause_takes_hosts_from_walks_that_wait_for_their_delay_and_they_go_on_later(tmp_path):
    roots = [f"http://h{number}.test/" for number in range(20)]

    with scripted_web(big_host) as web:
        async with running_worker(tmp_path) as (frontier, _):
            await submit(frontier, a_table(web, roots, delay=2))
            await wait_until(lambda: len({url for url in web.urls() if url in roots}) >= 1, "it is at work")
            await frontier.set_state("c", "paused", "by a test")
            began = time.monotonic()
            await wait_until_nothing_is_out(frontier)
            resting = len(web.asked)
            assert not [one for one in web.asked if one.at > began and one.url not in roots and "robots" not in one.url]
            await frontier.set_state("c", "running", "")
            await wait_until(lambda: len(web.asked) > resting, "it goes on")


async def test_a_collection_has_its_own_name_servers(tmp_path):
    with scripted_web(big_host) as web:
        async with a_name_server({"a.test": ["127.0.0.1"]}) as names, running_worker(tmp_path) as (frontier, _):
            table = a_table(web, [f"http://a.test:{web.port}/"], {"depth_max": 0})
            network = {"dns": [f"127.0.0.1:{names.port}"], "allow_private": True}
            await submit(frontier, table | {"network": network})
            await wait_until_nothing_waits(frontier)
            assert set(names.asked) == {"a.test"}
            assert (await numbers(frontier)).fetched == 1


async def test_a_collection_goes_through_its_proxy_but_for_what_it_connects_to_itself(tmp_path):
    with scripted_web(by_proxy) as web:
        async with a_proxy("127.0.0.1", web.port) as proxy, running_worker(tmp_path) as (frontier, _):
            table = a_table(
                web, ["http://a.example/", "http://b.test/"], {"hosts": ["*"], "depth_max": 0}, per_ip=False
            )
            network = {"proxy": f"http://127.0.0.1:{proxy.port}", "allow_private": True}
            connect_to = {"*.test": f"127.0.0.1:{web.port}"}
            await submit(frontier, table | {"network": network | {"connect_to": connect_to}})
            await wait_until_nothing_waits(frontier)
            assert [told.split()[1] for told in proxy.told] == [b"http://a.example/robots.txt"], "one connection"
            assert (await numbers(frontier)).fetched == 2


def by_proxy(url: str, _: int) -> ScriptedResponse | None:
    return None if url.endswith("/robots.txt") else ScriptedResponse(b"a page", headers={"Content-Type": "text/html"})


def test_a_worker_leaves_the_processor_to_the_followers_that_its_crawl_waits_for(tmp_path, monkeypatch):
    niceness = list[int]()
    monkeypatch.setattr(os, "nice", niceness.append)
    monkeypatch.setattr(uvloop, "run", lambda work: work.close())
    worker.main(DataDirectory(tmp_path), "w1")
    assert niceness == [worker.NICE]
    assert worker.NICE > 0
