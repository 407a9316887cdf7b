"""Prints the details of a page or a site on the terminal."""

from collections.abc import Sequence

from rich.markup import escape

from tarrafa.cli.output.terminal import console
from tarrafa.crawl.explain.explain import format_time
from tarrafa.crawl.explain.page_and_site import HostDetails, PageDetails, SiteDetails
from tarrafa.graph.sites import LinkedSite
from tarrafa.model import LinkedPage, host_trouble

VISITS_SHOWN, WORDS_SHOWN = 10, 20


def _line(name: str, text: str) -> None:
    console.print(f"  {name:12} {escape(text)}")


def print_page(found: PageDetails) -> None:
    console.print(f"[bold]{escape(found.title or found.url)}[/]")
    _line("url", found.url)
    _line("collection", ", ".join(found.collections))
    if found.status is not None:
        _line("status", f"{found.status} {found.meaning}".rstrip())
    _line("rank", f"{found.rank:.3g} times the mean; {found.in_total:,} pages link here")
    for name, at in (
        ("known since", found.first_seen_at),
        ("visited", found.visited_at),
        ("changed", found.changed_at),
    ):
        if at:
            _line(name, format_time(at))
    _changes(found)
    if found.frontier:
        _line("frontier", found.frontier)
    if found.words:
        words = ", ".join(f"{one.word} {one.count}" for one in found.words[:WORDS_SHOWN])
        _line("words", f"{words} ({found.words_total:,} different words)")
    _neighbours("link here", found.incoming, found.in_total)
    _neighbours("are linked from here", found.outgoing, found.out_total)
    _related("hosts are linked from here", found.out_hosts, found.out_hosts_total)


def _changes(found: PageDetails) -> None:
    for visit in found.history[-VISITS_SHOWN:]:
        seen = {True: ", changed", False: ", unchanged", None: ""}[visit.changed]
        _line(f"visit {visit.number}", f"{format_time(visit.at)}  {visit.status} {visit.meaning}".rstrip() + seen)
    if found.versions:
        _line("versions", f"{len(found.versions):,} in the last {len(found.history):,} visits")
    if found.changes is not None:
        page = found.changes
        _line("changes", f"{page.changes_per_day:.3g} a day, probably {page.low:.3g} to {page.high:.3g}")


def _neighbours(what: str, some: Sequence[LinkedPage], total: int) -> None:
    _head(f"pages {what}", len(some), total)
    for one in some:
        rel = f" [dim]({escape(one.rel)})[/]" if one.rel else ""
        console.print(f"  [green]{escape(one.url)}[/]  {escape(one.anchor)}{rel}")


def _related(what: str, some: Sequence[LinkedSite], total: int) -> None:
    _head(what, len(some), total)
    for one in some:
        console.print(f"  {one.links:>9,}  [green]{escape(one.name)}[/]")


def _head(what: str, shown: int, total: int) -> None:
    part = f", {shown:,} of them" if total > shown else ""
    console.print(f"[bold]{total:,} {what}[/]{part}{':' if shown else ''}")


def print_site(found: SiteDetails) -> None:
    console.print(f"[bold]{escape(found.name)}[/]  ({found.kind}, as of {format_time(found.as_of)})")
    others = [name for name in found.collections if name != found.collection]
    _line("collection", found.collection + (f" (also in {', '.join(others)})" if others else ""))
    _line(
        "pages", f"{found.known:,} known, {found.visited:,} visited, {found.fetched:,} fetched, {found.errors:,} errors"
    )
    if found.indexed is not None:
        _line("", f"{found.indexed:,} indexed")
    _line("rank", f"{found.rank:,.3g} in all, {found.rank / max(1, found.known):.3g} times the mean")
    for one in found.statuses:
        _line("", f"{one.urls:>9,}  {one.status} {one.meaning}".rstrip())
    if found.frontier:
        _line("frontier", found.frontier)
    _head("hosts of the site" if found.kind == "site" else "hosts of its site", len(found.hosts), found.hosts_total)
    for host in found.hosts:
        console.print(f"  [green]{escape(host.host)}[/]  {host.known:,} known, {host.visited:,} visited")
    for state in found.states:
        _state(state)
    plural = "sites" if found.kind == "site" else "hosts"
    _related(f"{plural} link here", found.incoming, found.in_total)
    _related(f"{plural} are linked from here", found.outgoing, found.out_total)


def _state(state: HostDetails) -> None:
    console.print(f"[bold]{escape(state.host)}[/]")
    _line("politeness", f"delay {state.delay_s:g} s; {state.visits:,} visits made, {state.waiting:,} URLs waiting")
    if state.trouble or state.failures:
        _line("trouble", f"{host_trouble(state.trouble)} ({state.failures} failures in a row)")
    if state.robots_status is None:
        _line("robots.txt", "not fetched yet")
        return
    lines = state.robots.strip().splitlines()
    _line("robots.txt", f"status {state.robots_status}, valid until {format_time(state.robots_expires_at)}")
    for line in lines[:VISITS_SHOWN]:
        _line("", line[:120])
    if len(lines) > VISITS_SHOWN:
        _line("", f"… {len(lines) - VISITS_SHOWN:,} more lines")
