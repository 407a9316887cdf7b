"""Watches over a Web that changes, on an accelerated clock, with kills: what is told is what the Web did."""

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from typing import Any

import pytest

from tarrafa.captures import follower as captures
from tarrafa.coordinator.notify.webhook_and_mail import FROM_VARIABLE, SMTP_VARIABLE
from tarrafa.coordinator.watch.watch_store import PageChange, WatchStore
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.model import Outcome
from tarrafa.parse.url import host_name
from tarrafa.testweb.oracle import version_of_url
from tarrafa.testweb.world.hosts import World
from tarrafa.testweb.world.resources import ResourceKind
from tests.coordinator.notify.fake_webhook_and_smtp import fake_smtp_server, fake_webhook
from tests.journey.accelerated_month import Month
from tests.journey.crawl_journey import kill_group, tarrafa
from tests.server.conftest import RunningSite
from tests.wait import block_until


def told(month: Month) -> list[PageChange]:
    with WatchStore(month.data).reading() as tables:
        assert tables is not None
        return [
            item
            for watch in tables.watches()
            for one in tables.messages(watch.number, 1_000, 10_000)
            for item in one.items
        ]


def changes_as_archived(month: Month) -> Counter[str]:
    """How often a visit, made while its site was watched, found another text than the visit before it."""
    since = {watch.settings.what: watch.created for watch in WatchStore(month.data).watches()}
    seen: defaultdict[str, list[Outcome]] = defaultdict(list)
    for record in month.records():
        if record.outcome.kept:
            seen[record.url].append(record.outcome)
    found = Counter[str]()
    for url, outcomes in seen.items():
        for then, now in itertools.pairwise(sorted(outcomes, key=lambda one: one.at)):
            found[url] += now.at >= since[host_name(url)] and then.content_id != now.content_id
    return +found


def changes_of_the_web(month: Month) -> int:
    """How many of these changes the Web knows of. (A page may change while it is on its way.)"""
    kinds = {page.url: page.kind for page in month.expected()}
    pages = [url for url, kind in kinds.items() if kind in (ResourceKind.PAGE, ResourceKind.PRINT)]
    changes = 0
    for url, times in month.versions_kept().items():
        if url in pages:
            versions = [version_of_url(month.world, url, at).number for at in times]
            changes += sum(one != two for one, two in itertools.pairwise(versions))
    return changes


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
            process, archived = month.start(), len(month.records())
            await asyncio.to_thread(block_until, lambda: len(month.records()) > archived)
            await asyncio.to_thread(month.live_until_seen_again, process, 7.5)
            await asyncio.to_thread(month.stop, process)
            web.stop()
        captures.catch_up(month.data)  # on a busy machine they are behind
        graph.catch_up(month.data, lambda name, weights: None)
        index.catch_up(month.data)
        await asyncio.to_thread(update, month, environment)
        assert (await asyncio.to_thread(update, month, environment))["messages"] == 0
    items = told(month)
    assert len({(one.kind, one.url, one.after or one.before) for one in items}) == len(items)
    assert Counter(one.url for one in items if one.kind == "changed") == changes_as_archived(month)
    assert 20 < changes_as_archived(month).total() <= 1.05 * changes_of_the_web(month)
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
