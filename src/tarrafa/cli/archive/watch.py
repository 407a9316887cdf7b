"""Commands `tarrafa watch`: watch a page, a site or a query; list and remove watches; look for changes once."""

import asyncio
import time
from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, Data, Json, PublicUrl, current_user, existing_data
from tarrafa.cli.output import console, print_json, print_result
from tarrafa.clock import Clock
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, Notifier
from tarrafa.coordinator.notify.webhook_and_mail import NotifyEnvironment
from tarrafa.coordinator.watch.watch_follower import run_watch_pass
from tarrafa.coordinator.watch.watch_messages import notice_without_taken_down
from tarrafa.coordinator.watch.watch_store import WatchKind
from tarrafa.coordinator.watch.watches import ListedWatch, WatchRequest, add_watch, list_watches, remove_watch
from tarrafa.i18n import ENGLISH
from tarrafa.runtime.terminal import counted, print_line
from tarrafa.takedown import CurrentTakedowns

app = typer.Typer(no_args_is_help=True, help="Watch a page, a site or a query for changes.")

Kind = Annotated[WatchKind, typer.Argument(help="page, site or query.", show_default=False)]
What = Annotated[str, typer.Argument(help="URL, name of a site or host, or a search.", show_default=False)]
Email = Annotated[list[str] | None, typer.Option("--email", metavar="ADDRESS", help="Mail to; may be repeated.")]
Webhook = Annotated[str, typer.Option("--webhook", metavar="URL", help="Send each message as JSON to this address.")]
Period = Annotated[
    str,
    typer.Option("--period", help="Changes within it are one message. Default: a page at once, else 1 h."),
]
OnlyCollection = Annotated[str, typer.Option("--collection", help="Only pages of this collection.")]

ADD_HELP = """Watch a page, a site with all its hosts, or a query.

Prints the path of its feed, which `tarrafa serve` and `tarrafa node` serve. A running node looks for changes every few
seconds; without one, `tarrafa watch update` does it once. What was crawled before is no news.
"""


@app.command("add", help=ADD_HELP)
def add(
    kind: Kind,
    what: What,
    email: Email = None,
    webhook: Webhook = "",
    period: Period = "",
    collection: OnlyCollection = "",
    data: Data = DEFAULT_DATA,
    as_json: Json = False,
) -> None:
    directory = existing_data(data)
    request = WatchRequest(kind, what, collection, period, tuple(email or ()), webhook)
    made = add_watch(directory, request, Clock.from_environment().now, current_user())
    shown = next(one for one in list_watches(directory) if one.number == made.number)
    print_result(shown, as_json, lambda shown: _print_watches([shown]))


@app.command("list")
def list_(data: Data = DEFAULT_DATA, as_json: Json = False) -> None:
    """List the watches, with their feeds and what keeps messages from arriving."""
    print_result(list_watches(existing_data(data)), as_json, _print_watches)


@app.command("remove")
def remove(
    number: Annotated[int, typer.Argument(help="Number of the watch, as in the list.")], data: Data = DEFAULT_DATA
) -> None:
    """Remove a watch, with its feed."""
    gone = remove_watch(existing_data(data), number)
    print_line(f"watch {gone.number} of {gone.settings.what}: removed")


@app.command("update")
def update(data: Data = DEFAULT_DATA, public: PublicUrl = "", as_json: Json = False) -> None:
    """Look for changes once, and send what is due: where no node runs, after a crawl or from cron."""
    directory = existing_data(data)
    queued = run_watch_pass(directory, public, Clock.from_environment().now(), time.time())
    takedowns = CurrentTakedowns(directory)
    notifier = Notifier(
        NoticeOutbox(directory.coordinator), NotifyEnvironment.from_environment(), time.time,
        lambda notice: notice_without_taken_down(notice, takedowns.now()),
    )  # fmt: skip
    sent = asyncio.run(notifier.deliver_due())
    if as_json:
        print_json({"messages": queued, "sent": sent})
    else:
        print_line(f"{counted(queued, 'message')} to send, {sent} sent")


def _print_watches(shown: list[ListedWatch]) -> None:
    if not shown:
        console.print("Nothing is watched.")
    for one in shown:
        last = f", the last {time.strftime('%Y-%m-%d %H:%M', time.localtime(one.last_at))}" if one.last_at else ""
        console.print(f"[bold]{one.number}  {one.kind}  {escape(one.what)}[/]")
        targets = ", ".join([*one.email, *filter(None, [one.webhook])])
        where = f" in {one.collection}" if one.collection else ""
        told = f", told: {targets}" if targets else ""
        print_line(f"   {counted(one.messages, 'message')}{last}; period {one.period}{where}{told}")
        print_line(f"   feed {one.feed}")
        for trouble in one.trouble:
            print_line(f"   {ENGLISH.render(trouble)}")
