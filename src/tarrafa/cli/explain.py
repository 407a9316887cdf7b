"""Command `explain`: why a URL is in or out, what robots.txt says, its visits, and its next visit."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.crawl import frontier_time
from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, FrontierAddress, Json, TokenFile
from tarrafa.cli.output import console, new_table, print_field, print_result, print_table
from tarrafa.crawl.explain.explain import (
    Explanation,
    HostExplanation,
    RequisitesExplanation,
    RobotsVerdict,
    UrlExplanation,
)
from tarrafa.crawl.explain.explain import explain as explain_url
from tarrafa.crawl.explain.freshness import ChangeEstimate
from tarrafa.crawl.explain.render_explanation import RenderExplanation
from tarrafa.frontier.address import from_command_line
from tarrafa.model import UsageStatement
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted

HISTORY_SHOWN = 20


def explain(
    url: Annotated[str, typer.Argument(help="URL.")],
    data: Data = DEFAULT_DATA,
    collection: CollectionFilter = None,
    as_json: Json = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Explain a URL: scope rule, robots.txt, visits, next visit.

    It answers the questions of a webmaster: why was this fetched, and when will it be again?
    """
    address = from_command_line(where, token_file)

    async def explanation() -> Explanation:
        return await explain_url(DataDirectory(data), url, collection, await frontier_time(address), address)

    print_result(asyncio.run(explanation()), as_json, print_explanation)


def print_explanation(found: Explanation) -> None:
    console.print(f"[bold]{escape(found.url)}[/]")
    if found.notice:
        print_field("frontier", found.notice)
    if found.host is not None:
        _print_host(found.host)
    if not found.collections:
        console.print("No collection yet.")
    for url in found.collections:
        console.print(f"\n[bold]in collection {escape(url.collection)}[/]")
        _print_url(url, found.host.trouble if found.host is not None else "")


def _print_host(host: HostExplanation) -> None:
    holder = f", now with worker {host.worker}" if host.worker else ""
    print_field("host", f"{host.host} of {host.site}{holder}")
    print_field(
        "",
        f"{counted(host.visited, 'visit')} made, {counted(host.waiting, 'URL')} in the queue; "
        f"{counted(host.failures, 'failure')} in a row",
    )
    if host.trouble:
        print_field("trouble", host.trouble)
    last = f"no request since {host.no_request_since}" if host.no_request_since else "never visited"
    if host.under_way_until:
        last = f"a request of a worker that fell silent may take until {host.under_way_until}"
    print_field("politeness", f"{last}; next visit allowed: {host.may_be_visited}; delay {host.delay_s:g} s")


def _print_url(url: UrlExplanation, trouble: str) -> None:
    print_field("canonical", url.canonical)
    print_field("in scope" if url.in_scope else "out of scope", url.rule)
    print_field("robots.txt", "ignored by this collection" if url.robots_ignored else _robots(url.robots, trouble))
    if url.robots is not None:
        for hint in url.robots.hints:
            print_field("", hint)
        for sitemap in url.robots.sitemaps:
            print_field("", f"Sitemap: {sitemap}")
    print_field("delay", f"{url.delay_s:g} s by {url.delay_rule}")
    if not url.known:
        print_field("state", f"unknown: {url.next_visit}")
        return
    status = f", last status {url.status} {url.meaning}".rstrip() if url.status is not None else ""
    print_field("state", f"{url.state}{status}{', ' + url.type if url.type else ''}")
    role = "" if url.role == "page" else f", a {url.role}"
    rank = f", rank {url.rank:.3g}" if url.rank else ""
    print_field("known", f"since {url.discovered}, depth {url.depth}, {counted(url.in_links, 'in-link')}{rank}{role}")
    if url.announced:
        print_field("", f"changed according to its sitemap or feed: {url.announced}")
    if url.site is not None:
        site = url.site
        print_field(
            "site",
            f"{site.name}: {site.stage}, {counted(site.mentions, 'mention')}, {counted(site.walked, 'page')} walked",
        )
    for said in url.usage:
        print_field("use", usage_text(said))
    if url.rendered is not None:
        _print_render(url.rendered)
    if url.requisites is not None:
        _print_requisites(url.requisites)
    for copy in url.copies:
        print_field("same text as", copy)
    if url.believed is not None:
        _change_estimate(url.believed)
    print_field("next visit", url.next_visit)
    if url.history:
        _history(url)


def usage_text(said: UsageStatement) -> str:
    """`reserves ai-train (robots.txt: Content-Signal: ai-train=no)`."""
    parts = [
        f"{verb} {', '.join(uses)}" for verb, uses in (("reserves", said.reserved), ("grants", said.granted)) if uses
    ]
    return f"{'; '.join(parts) or 'terms'} ({said.source}: {said.text})"


def _print_requisites(needs: RequisitesExplanation) -> None:
    looked_up = "" if needs.looked_up == needs.total else f" (of the first {needs.looked_up:,})"
    print_field("requisites", f"{needs.total:,}, of which {needs.archived:,} are archived{looked_up}")
    for one in needs.lacking:
        print_field("lacking", f"{one.url}: {one.why}")


def _print_render(rendered: RenderExplanation) -> None:
    print_field("scripts", f"{rendered.result}; why: {rendered.why}")
    for one in rendered.requests:
        size = f", {counted(one.bytes, 'byte')}" if one.bytes else ""
        print_field("asked for", f"{one.url} ({one.kind}): {one.status} {one.meaning}{size}")
    if rendered.requests_total > len(rendered.requests):
        print_field("", f"and {counted(rendered.requests_total - len(rendered.requests), 'more request')}")


def told_rate(page: ChangeEstimate) -> str:
    """How often a page changes, in words."""
    if page.high is None:  # nothing tells it from any faster page
        return f"at least {page.low:.3g} a day, perhaps {page.changes_per_day:.3g} or more"
    return f"{page.changes_per_day:.3g} a day, probably {page.low:.3g} to {page.high:.3g}"


def _change_estimate(page: ChangeEstimate) -> None:
    seen = f"{counted(page.changes, 'change')} seen in {counted(page.visits, 'visit')}; {page.dates}"
    print_field("changes", f"{told_rate(page)} ({seen})")
    print_field("fresh", f"{page.fresh:.0%} probably; weight {page.weight:.3g}")


def _robots(robots: RobotsVerdict | None, trouble: str) -> str:
    if robots is None:
        return "not reachable" if trouble else "not fetched yet"
    verdict = "allowed" if robots.allowed else "forbidden"
    line = f" by {robots.line}" if robots.line else ", no line matches it"
    delay = f"; Crawl-delay {robots.crawl_delay_s:g} s" if robots.crawl_delay_s is not None else ""
    return f"{verdict}{line} (status {robots.status}, valid until {robots.expires}{delay})"


def _history(url: UrlExplanation) -> None:
    headings = ("visit", "when", "status", "bytes", "changed", "worker")
    table = new_table(*headings, left=("when", "status", "changed", "worker"), padding=(0, 2))
    changed = {True: "yes", False: "no", None: ""}
    for seen in url.history[-HISTORY_SHOWN:]:
        meaning = f"{seen.status} {seen.meaning}".strip()
        table.add_row(str(seen.number), seen.at, meaning, f"{seen.bytes:,}", changed[seen.changed], escape(seen.worker))
    print_table(table)
