"""Puts the message of a watch into words, and into a notice for webhook and mail.

Promises: a page that is taken down is named nowhere, also if it was taken down after its change was found. Pure.
"""

from urllib.parse import urlencode

from msgspec.structs import replace

from tarrafa.coordinator.notify.webhook_and_mail import WATCH_EVENT, Notice, NoticeItem, one_line
from tarrafa.coordinator.watch.watch_store import CHANGE_KINDS, ChangeKind, PageChange, Watch, WatchMessage
from tarrafa.coordinator.watch.watches import feed_paths, notice_subject
from tarrafa.i18n import Message, joined, message, messages
from tarrafa.takedown import TakedownSet

TITLE_CHARS_MAX = 200


def message_sentence(watch: Watch, found: WatchMessage) -> Message:
    """What has changed, in one line."""
    counts = [(kind, found.counts[kind]) for kind in CHANGE_KINDS if found.counts[kind]]
    said = joined([_counted(kind, count) for kind, count in counts])
    return message("{what}: {changes}", what=one_line(watch.settings.what, TITLE_CHARS_MAX), changes=said)


def change_name(kind: ChangeKind) -> Message:
    names = {"new": message("new"), "changed": message("changed"), "gone": message("gone"), "match": message("matches")}
    return names[kind]


def change_path(change: PageChange) -> str:
    """Where this site shows a change: the two captures side by side, else the capture that there is."""
    if change.kind == "changed":
        return "/diff?" + urlencode({"url": change.url, "from": change.before, "to": change.after})
    return "/copy?" + urlencode({"url": change.url, "at": change.after or change.before})


def without_taken_down(found: WatchMessage, takedowns: TakedownSet) -> WatchMessage:
    """The message without the pages that are taken down."""
    if not takedowns:
        return found
    shown = [one for one in found.items if not takedowns.covers(one.url)]
    counts = dict(found.counts)
    for one in found.items:
        counts[one.kind] -= takedowns.covers(one.url)
    return found._replace(items=shown, counts=counts)


def message_notice(watch: Watch, found: WatchMessage, public: str) -> Notice:
    """For the outbox; its id is that of the entry in the feed. `public`: the address of the site; empty: no links."""
    base = public.rstrip("/")
    items = tuple(
        NoticeItem(one.kind, one.url, one_line(one.title, TITLE_CHARS_MAX), base + change_path(one) if base else "")
        for one in found.items
    )
    numbers: dict[str, int | float] = {kind: found.counts[kind] for kind in CHANGE_KINDS if found.counts[kind]}
    link = base + feed_paths(watch.token).atom if base else ""
    sentence = one_line(str(message_sentence(watch, found)), 500)
    return Notice(found.id, notice_subject(watch.number), WATCH_EVENT, found.at, sentence, numbers, items, link)


def notice_without_taken_down(notice: Notice, takedowns: TakedownSet) -> Notice | None:
    """The notice as it may be sent now; None: it was about pages that are taken down."""
    shown = tuple(one for one in notice.items if not takedowns.covers(one.url))
    if len(shown) == len(notice.items):
        return notice
    return replace(notice, items=shown) if shown else None


def _counted(kind: ChangeKind, count: int) -> Message:
    if kind == "new":
        return messages("{count} new page", "{count} new pages", count)
    if kind == "changed":
        return messages("{count} page has changed", "{count} pages have changed", count)
    if kind == "gone":
        return messages("{count} page is gone", "{count} pages are gone", count)
    return messages("{count} page matches now", "{count} pages match now", count)
