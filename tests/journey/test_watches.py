"""Watches over a Web that changes, on an accelerated clock, with kills: what is told is what the Web did."""

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from tarrafa.coordinator.notify.webhook_and_mail import FROM_VARIABLE, SMTP_VARIABLE
from tarrafa.coordinator.watch.watch_store import PageChange, WatchStore
from tarrafa.parse.url import host_name
from tarrafa.testweb.oracle import version_of_url
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.resources import ResourceKind
from tests.coordinator.notify.fake_webhook_and_smtp import fake_smtp_server, fake_webhook
from tests.journey.accelerated_month import Month
from tests.journey.crawl_journey import kill_group, tarrafa
from tests.server.conftest import RunningSite


def told(month: Month) -> list[PageChange]:
    with WatchStore(month.data).reading() as tables:
        assert tables is not None
        return [
            item
            for watch in tables.watches()
            for one in tables.messages(watch.number, 1_000, 10_000)
            for item in one.items
        ]


def changes_of_the_web(month: Month) -> Counter[str]:
    """How often a visit, made while its site was watched, found another version than the visit before it."""
    since = {watch.settings.what: watch.created for watch in WatchStore(month.data).watches()}
    kinds = {page.url: page.kind for page in month.expected()}
    seen: defaultdict[str, list[float]] = defaultdict(list)
    for record in month.records():
        if record.outcome.kept and kinds.get(record.url) in (ResourceKind.PAGE, ResourceKind.PRINT):
            seen[record.url].append(record.outcome.at)
    found = Counter[str]()
    for url, times in seen.items():
        for then, now in itertools.pairwise(sorted(times)):
            before, after = (version_of_url(month.world, url, at).number for at in (then, now))
            found[url] += now >= since[host_name(url)] and before != after
    return +found


def update(month: Month, environment: dict[str, str]) -> dict[str, Any]:
    done = tarrafa("watch", "update", "--data", month.data.root, "--json", env=environment)
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def test_watched_sites_tell_what_the_web_changed_once_through_kills(tmp_path):
    feedparser = pytest.importorskip("feedparser")
    month = Month(tmp_path, "index", real_s=30, days=8, world=World(seed=3, hosts=6, pages=60), share=0.5)
    async with fake_webhook(503, 204) as hook, fake_smtp_server() as mail:
        environment = month.environment | {SMTP_VARIABLE: mail.server(), FROM_VARIABLE: "crawl@example.br"}
        with month.open() as web:
            process = month.start()
            await asyncio.to_thread(month.live_until, process, 2)
            for number, name in enumerate(sorted({host_name(root) for root in month.roots})):
                targets = ["--webhook", hook.address, "--email", "reader@example.br"] if not number else []
                more = [*targets, "--period", "0 s", "--data", str(month.data.root)]
                done = await asyncio.to_thread(tarrafa, "watch", "add", "site", name, *more, env=month.environment)
                assert not done.returncode, done.stderr
            await asyncio.to_thread(month.live_until, process, 4)
            await asyncio.to_thread(update, month, environment)
            kill_group(process)
            process = month.start()
            await asyncio.to_thread(month.live_until_seen_again, process, 7.5)
            await asyncio.to_thread(month.stop, process)
            web.stop()
        await asyncio.to_thread(update, month, environment)
        assert (await asyncio.to_thread(update, month, environment))["messages"] == 0
    items = told(month)
    assert len({(one.kind, one.url, one.after or one.before) for one in items}) == len(items)
    found, truth = Counter(one.url for one in items if one.kind == "changed"), changes_of_the_web(month)
    pages = {page.url for page in month.expected() if page.kind in (ResourceKind.PAGE, ResourceKind.PRINT)}
    wrong = sum((found - truth).values()) + sum((truth - found).values())
    wrong -= sum(count for url, count in (found - truth).items() if url not in pages)
    assert truth.total() > 20
    assert wrong <= 0.05 * truth.total()  # a page may change while it is on its way
    first = [json.loads(body) for _, headers, body in hook.requests]
    assert first and {one["event"] for one in first} == {"watch"}
    assert {letter["X-Tarrafa-Id"] for letter in mail.letters} == {one["id"] for one in first}
    with RunningSite(month.data) as site:
        feed = tarrafa("watch", "list", "--data", month.data.root, "--json")
        response, text = await asyncio.to_thread(site.get, json.loads(feed.stdout)[0]["feed"])
        read = feedparser.parse(text)
        assert response.status == 200 and not read.bozo
        assert {entry.id.rpartition("/")[2] for entry in read.entries} == {one["id"] for one in first}
        compared = next(item for item in first[0]["items"] + first[-1]["items"] if item["kind"] == "changed")
        assert compared["link"] == ""  # without --public-url
        changed = next(one for one in items if one.kind == "changed")
        path = f"/diff?url={changed.url}&from={changed.before}&to={changed.after}"
        assert "<ins>" in (await asyncio.to_thread(site.get, path))[1]
