"""Prints results of commands on the terminal, or as JSON."""

import sys
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.index.follower import IndexStatus
from tarrafa.model import STATUS_MEANING, InAndOutLinks, SearchResult
from tarrafa.server.search.query_log import QueryReport
from tarrafa.takedown import TakedownEntry
from tarrafa.triples.status import TriplesStatus

console = Console(highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """The text without control characters."""
    return "".join(sign for sign in text if sign.isprintable() or sign in "\n\t")


def print_json(value: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def print_overview(shown: FrontierOverview) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("collection", "state", "pages", "pages/s", "known", "pending", "failed", "hosts"):
        table.add_column(name, justify="left" if name in {"collection", "state"} else "right")
    for one in shown.collections:
        figures = [f"{one.fetched:,}", f"{one.pages_per_s:,.1f}", f"{one.known:,}", f"{one.pending:,}"]
        table.add_row(one.name, one.state, *figures, f"{one.failed:,}", f"{one.hosts:,}")
    console.print(table)
    for one in shown.collections:
        if one.sites_chosen or one.table:
            sites = f"{one.sites_chosen:,} sites chosen, {one.table:,} in the table"
            console.print(f"{one.name} crawls in breadth order: {sites}; {one.passed_over:,} URLs passed over")
    for one in shown.collections:
        if one.revisits:
            share = f"{one.changes / one.revisits:.0%} found a change"
            console.print(f"{one.name} is kept fresh: {one.revisits:,} revisits, {share}")
    for one in shown.collections:
        if one.reason:
            console.print(f"{one.name} is {one.state}: {escape(str(one.reason))}")
    for note in shown.notes:
        console.print(escape(note))
    if shown.nodes:
        workers = ", ".join(f"{node.name} (pid {node.pid}, {node.hosts} hosts)" for node in shown.nodes)
        console.print(f"workers: {workers}")
        for node in shown.nodes:
            if node.note:
                console.print(f"{node.name}: {escape(node.note)}")


def print_index_state(shown: IndexStatus | None) -> None:
    if shown is None:
        return
    parts = "" if shown.shards == "1" else f" in shards ({shown.shards})"
    behind = "" if not shown.behind_bytes else f", {shown.behind_bytes:,} bytes of the archive behind"
    anew = "" if shown.settled else "; some in-link counts are still to be updated"
    console.print(f"index: {shown.documents:,} documents{parts}{behind}{anew}")


def print_triples_state(shown: TriplesStatus | None) -> None:
    if shown is None:
        return
    inferred = f" and {shown.inferred:,} inferred" if shown.inferred else ""
    behind = "" if not shown.behind_bytes else f", {shown.behind_bytes:,} bytes of the archive behind"
    what = f"{shown.statements:,} statements{inferred} on {shown.pages:,} pages, of {shown.things:,} entities"
    console.print(f"triple store: {what}{behind}")


def format_statuses(status: CollectionStatus) -> str:
    """`200: 1,950 · 404: 12 · robots: 40`, the most frequent first."""
    ordered = sorted(status.statuses.items(), key=lambda item: -item[1])
    return " · ".join(f"{STATUS_MEANING.get(int(code), code)}: {count:,}" for code, count in ordered)


def print_hits(result: SearchResult, offset: int, is_scored: bool = True) -> None:
    """Print results. `is_scored`: they are ordered by score, so scores are shown."""
    for shard in result.shards:
        if shard.trouble:
            sys.stderr.write(f"without {shard.name}: {shard.trouble}\n")
    if result.total and not result.hits:
        console.print(f"There are only {result.total:,} results.")
    elif not result.hits or result.instead:
        console.print(f"Nothing found for {escape(repr(result.query))} ({result.time_s * 1000:.1f} ms).")
    _print_query_changes(result)
    if not result.hits:
        return
    pages = "page" if result.total == 1 else "pages"
    console.print(f"{result.total:,} {pages}, {result.time_s * 1000:.1f} ms\n")
    for number, hit in enumerate(result.hits, offset + 1):
        console.print(f"[bold]{number}. {escape(printable(hit.title) or hit.url)}[/]")
        console.print(f"   [green]{escape(hit.url)}[/]")
        console.print(f"   {escape(printable(hit.snippet))}")
        for thing in hit.declared:
            said = " · ".join([thing.name, *(f"{name.rpartition(':')[2]} {value}" for name, value in thing.facts)])
            console.print(f"   [cyan]{escape(thing.kind)}[/] {escape(printable(said))}")
        copies = f" · and {hit.copies:,} {'copy' if hit.copies == 1 else 'copies'}" if hit.copies else ""
        score = "pinned · " if hit.pinned else f"score {hit.score:.2f} · " if is_scored else ""
        in_links = f"{hit.in_links:,} {'in-link' if hit.in_links == 1 else 'in-links'}"
        facts = f"{score}{in_links} · {hit.updated[:10]} · {hit.language}{copies}"
        console.print(f"   [dim]{facts}[/]\n")


def _print_query_changes(result: SearchResult) -> None:
    """How the searched query differs from the typed one."""
    if result.suggestion:
        console.print(f"Did you mean: [bold]{escape(result.suggestion)}[/]")
    if result.instead:
        found = {"spelling": "that spelling", "some": "some of the words"}[result.instead]
        console.print(f"Results for {found}:")
    elif result.expanded:
        console.print(f"Also looked for: {escape(', '.join(result.expanded))}")
    if result.ignored:
        console.print(f"Ignored, because nearly every page contains them: {escape(', '.join(result.ignored))}")


def print_suggestions(found: list[str], json: bool) -> None:
    if json:
        print_json(found)
    else:
        for text in found:
            console.print(escape(text))


def print_query_report(shown: QueryReport) -> None:
    if not shown.asked:
        console.print(f"No searches in the last {shown.days} days.")
        return
    sums = f"{shown.asked:,} searches in {shown.days} days, {shown.empty:,} without results"
    unkept = f"; the texts of {shown.unkept:,} were not kept" if shown.unkept else ""
    console.print(f"{sums}{unkept}\n")
    for title, some in (("most frequent", shown.top), ("without results", shown.zero)):
        if some:
            console.print(f"[bold]{title}[/]")
        for one in some:
            found = f"  [dim]{one.hits:,} pages[/]" if one.hits else ""
            console.print(f"  {one.times:>6,}  {escape(one.query)}{found}")


def print_takedowns(shown: list[TakedownEntry], *, whole: bool) -> None:
    if not shown:
        console.print("Nothing was ever taken down." if whole else "Nothing is taken down.")
        return
    for entry in shown:  # no table: what is named must not be cut
        action = {"add": "taken down  ", "lift": "lifted      "}[entry.action] if whole else ""
        why = f": {' '.join(entry.reason.split())}" if entry.reason else ""
        console.print(f"{entry.at:%Y-%m-%d %H:%M:%S}  {action}{escape(f'{entry.target}  by {entry.who}{why}')}")


def print_neighbours(shown: InAndOutLinks, offset: int, *, incoming: bool, outgoing: bool) -> None:
    for wanted, title, links, total in (
        (incoming, "link here", shown.incoming, shown.in_total),
        (outgoing, "are linked from here", shown.outgoing, shown.out_total),
    ):
        if not wanted:
            continue
        first = f", {offset + 1:,} to {offset + len(links):,}" if 0 < len(links) < total else ""
        console.print(f"[bold]{total:,} pages {title}[/]{first}:")
        for link in links:
            rel = f" [dim]({escape(link.rel)})[/]" if link.rel else ""
            console.print(f"  [green]{escape(link.url)}[/]  {escape(link.anchor)}{rel}")
