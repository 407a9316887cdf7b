"""Did the badly behaved hosts get what they deserve?

Compares what the frontier says became of their URLs with what a crawler that cannot be hurt should say of them.
"""

from collections import Counter
from dataclasses import dataclass, field

from rich.markup import escape
from rich.table import Table

from tarrafa.cli.show import console
from tarrafa.data import DataDirectory
from tarrafa.frontier.protocol import UrlFacts
from tarrafa.frontier.store.sqlite import read_url_lookup, read_statuses_by_host
from tarrafa.model import STATUS_MEANING
from tarrafa.parse.url import host_id, host_key, host_name, url_id
from tarrafa.web.corners import HOSTILE_HOSTS, HostileHost, hostile_host_of


@dataclass(slots=True)
class HostileVerdict:
    """One corner, and how the crawl fared there."""

    corner: HostileHost
    statuses: Counter[int | None] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def verdicts(data: DataDirectory, name: str) -> list[HostileVerdict]:
    """For a crawl that is over."""
    found = {corner.name: _verdict(data, name, corner) for corner in HOSTILE_HOSTS.values()}
    for key, status, count in read_statuses_by_host(data.frontier, name):
        corner = hostile_host_of(host_name(f"{key}/"))
        if corner is not None:
            found[corner.name].statuses[status] += count
    return list(found.values())


def _verdict(data: DataDirectory, name: str, corner: HostileHost) -> HostileVerdict:
    verdict, expects = HostileVerdict(corner), corner.expects
    for url in sorted({*expects.statuses, *expects.kept}):
        known = _known(data, name, url)
        status, kept = (known.status, known.state == "fetched") if known else (None, False)
        right = expects.statuses.get(url)
        if right is not None and status not in right:
            verdict.wrong.append(f"{url}: {status}, not {' or '.join(map(str, right))}")
        if kept if not expects.may_be_kept(url) else not kept and url in expects.kept:
            verdict.wrong.append(f"{url}: {'kept' if kept else 'not kept'} ({status})")
    return verdict


def _known(data: DataDirectory, name: str, url: str) -> UrlFacts | None:
    facts = read_url_lookup(data.frontier, host_id(host_key(url)), url_id(url))
    return next((one for one in facts.urls if one.collection == name), None)


def show_verdicts(found: list[HostileVerdict]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2))
    for title in ("host", "what it does", "what became of it"):
        table.add_column(title, overflow="fold")
    for verdict in found:
        fates = ", ".join(
            f"{STATUS_MEANING.get(status, str(status)) if status is not None else 'not visited'}"
            + (f" x{count:,}" if count > 1 else "")
            for status, count in verdict.statuses.most_common()
        )
        mark = "" if not verdict.wrong else f" [red]unexpected: {escape('; '.join(verdict.wrong[:3]))}[/]"
        table.add_row(escape(verdict.corner.name), escape(verdict.corner.about), escape(fates) + mark)
    console.print(table)
