"""Prints the explanation of a URL on the terminal."""

from rich.markup import escape
from rich.table import Table

from tarrafa.cli.output.terminal import console
from tarrafa.crawl.explain.explain import Explanation, HostExplanation, RobotsVerdict, UrlExplanation
from tarrafa.crawl.explain.freshness import ChangeEstimate
from tarrafa.model import host_trouble

HISTORY_SHOWN = 20


def print_explanation(found: Explanation) -> None:
    console.print(f"[bold]{escape(found.url)}[/]")
    if found.host is not None:
        _host(found.host)
    if not found.collections:
        console.print("No collection yet.")
    for told in found.collections:
        console.print(f"\n[bold]in collection {escape(told.collection)}[/]")
        _collection(told, found.host.trouble if found.host is not None else "")


def _line(name: str, text: str) -> None:
    console.print(f"  {name:12} {escape(text)}")


def _host(host: HostExplanation) -> None:
    holder = f", now with worker {host.worker}" if host.worker else ""
    _line("host", f"{host.host} of {host.site}{holder}")
    _line("", f"{host.visited:,} visits made, {host.waiting:,} URLs waiting; {host.failures} failures in a row")
    if host.trouble:
        _line("trouble", str(host_trouble(host.trouble)))
    last = f"last visited {host.last_answer}" if host.last_answer else "never visited"
    _line("politeness", f"{last}; next visit allowed: {host.may_be_visited}; delay {host.delay_s:g} s")


def _collection(told: UrlExplanation, trouble: str) -> None:
    _line("canonical", told.canonical)
    _line("in scope" if told.in_scope else "out of scope", told.rule)
    _line("robots.txt", _robots(told.robots, trouble))
    if told.robots is not None:
        for hint in told.robots.hints:
            _line("", hint)
        for sitemap in told.robots.sitemaps:
            _line("", f"Sitemap: {sitemap}")
    _line("delay", f"{told.delay_s:g} s by {told.delay_rule}")
    if not told.known:
        _line("state", f"unknown: {told.next_visit}")
        return
    status = f", last status {told.status} {told.meaning}".rstrip() if told.status is not None else ""
    _line("state", f"{told.state}{status}{', ' + told.type if told.type else ''}")
    role = "" if told.role == "page" else f", a {told.role}"
    rank = f", rank {told.rank:.3g}" if told.rank else ""
    _line("known", f"since {told.discovered}, depth {told.depth}, {told.in_links:,} in-links{rank}{role}")
    if told.announced:
        _line("", f"changed according to its sitemap or feed: {told.announced}")
    if told.site is not None:
        site = told.site
        _line("site", f"{site.name}: {site.stage}, {site.mentions:,} mentions, {site.walked:,} pages walked")
    for copy in told.copies:
        _line("same text as", copy)
    if told.believed is not None:
        _change_estimate(told.believed)
    _line("next visit", told.next_visit)
    if told.history:
        _history(told)


def _change_estimate(page: ChangeEstimate) -> None:
    seen = f"{page.changes:,} changes seen in {page.visits:,} visits; {page.dates}"
    _line("changes", f"{page.changes_per_day:.3g} a day, probably {page.low:.3g} to {page.high:.3g} ({seen})")
    _line("fresh", f"{page.fresh:.0%} probably; weight {page.weight:.3g}")


def _robots(said: RobotsVerdict | None, trouble: str) -> str:
    if said is None:
        return "not reachable" if trouble else "not fetched yet"
    verdict = "allowed" if said.allowed else "forbidden"
    line = f" by {said.line}" if said.line else ", no line matches it"
    delay = f"; Crawl-delay {said.crawl_delay_s:g} s" if said.crawl_delay_s is not None else ""
    return f"{verdict}{line} (status {said.status}, valid until {said.expires}{delay})"


def _history(told: UrlExplanation) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for name in ("visit", "when", "status", "bytes", "changed"):
        table.add_column(name, justify="right" if name in {"visit", "bytes"} else "left")
    changed = {True: "yes", False: "no", None: ""}
    for seen in told.history[-HISTORY_SHOWN:]:
        meaning = f"{seen.status} {seen.meaning}".strip()
        table.add_row(str(seen.number), seen.at, meaning, f"{seen.bytes:,}", changed[seen.changed])
    console.print(table)
