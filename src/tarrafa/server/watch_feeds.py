"""Feeds of watches: /watch/TOKEN.atom and /watch/TOKEN.rss.

An entry is a message: the changes of a period, each with a link to what has changed. Promises: who does not know the
token of a watch learns nothing, not even that there is one; a page that was taken down is named nowhere from the next
request on, and a watched page or site that was taken down is 451. A feed has at most ENTRIES_MAX entries, each with at
most PAGES_MAX pages.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape
from xml.etree.ElementTree import Element, SubElement

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tarrafa.coordinator.watch.watch_messages import change_name, change_path, message_sentence, without_taken_down
from tarrafa.coordinator.watch.watch_store import Watch, WatchMessage, WatchStore
from tarrafa.errors import PageTakenDown
from tarrafa.i18n import Translator, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.error_status import UnknownResource
from tarrafa.server.page_responses import PageResponses
from tarrafa.server.search.feeds import ATOM, ATOM_TYPE, RSS_TYPE, add_element, xml_document
from tarrafa.takedown import CurrentTakedowns, TakedownSet

ENTRIES_MAX = 50
PAGES_MAX = 100
TOKEN_CHARS_MAX = 64


class WatchFeedRoutes:
    def __init__(self, data: DataDirectory, pages: PageResponses) -> None:
        self._store, self._pages, self._takedowns = WatchStore(data), pages, CurrentTakedowns(data)

    def routes(self) -> list[Route]:
        return [
            Route("/watch/{token}.atom", lambda request: self._feed(request, to_atom, ATOM_TYPE)),
            Route("/watch/{token}.rss", lambda request: self._feed(request, to_rss, RSS_TYPE)),
        ]

    def _feed(self, request: Request, write: Callable[["WatchFeed"], bytes], kind: str) -> Response:
        token, orders = str(request.path_params["token"])[:TOKEN_CHARS_MAX], self._takedowns.now()
        with self._store.reading() as tables:
            watch = tables.watch_of_token(token) if tables is not None else None
            if tables is None or watch is None:
                raise UnknownResource(message("There is nothing at this address."))
            found = tables.messages(watch.number, ENTRIES_MAX, PAGES_MAX)
        if is_taken_down(watch, orders):
            raise PageTakenDown(message("{what}: was taken down", what=watch.settings.what))
        shown = [one for one in (without_taken_down(each, orders) for each in found) if any(one.counts.values())]
        base = self._pages.site_url(request)
        feed = WatchFeed(watch, shown, base, f"{base}{request.url.path}", self._pages.translator(request))
        headers = {"Cache-Control": "private", "X-Robots-Tag": "noindex", "Referrer-Policy": "no-referrer"}
        return Response(write(feed), media_type=kind, headers=headers)


def is_taken_down(watch: Watch, orders: TakedownSet) -> bool:
    kind, what = watch.settings.kind, watch.settings.what
    return (kind == "page" and orders.covers(what)) or (kind == "site" and orders.covers_host(what))


class WatchFeed:
    """The entries of a feed, newest first. `base`: the address of the site, `own` that of the feed."""

    def __init__(self, watch: Watch, found: list[WatchMessage], base: str, own: str, _: Translator) -> None:
        self.watch, self.found, self.base, self.own, self._ = watch, found, base, own, _
        self.title = _("Changes: {what}", what=watch.settings.what)

    @property
    def updated(self) -> float:
        return self.found[0].at if self.found else self.watch.created

    def entry_id(self, one: WatchMessage) -> str:
        """The same in Atom and RSS, and while the feed lives; a part of it is the id of the mail and webhook call."""
        day = datetime.fromtimestamp(self.watch.created, UTC)
        return f"tag:tarrafa,{day:%Y-%m-%d}:{self.watch.token[:8]}/{one.id}"

    def entry_title(self, one: WatchMessage) -> str:
        return self._.render(message_sentence(self.watch, one))

    def entry_link(self, one: WatchMessage) -> str:
        """Of a single page, what has changed; else the site's page about what is watched."""
        if len(one.items) == 1:
            return self.base + change_path(one.items[0])
        return self.base + "/"

    def entry_content(self, one: WatchMessage) -> str:
        """A list of pages, as HTML."""
        lines = []
        for item in one.items:
            link, name = escape(self.base + change_path(item)), escape(item.title or item.url)
            kind = escape(self._.render(change_name(item.kind)))
            lines.append(f'<li>{kind}: <a href="{link}">{name}</a> <small>{escape(item.url)}</small></li>')
        more = sum(one.counts.values()) - len(one.items)
        rest = f"<p>{escape(self._('And {count} more.', count=more))}</p>" if more > 0 else ""
        return f"<ul>{''.join(lines)}</ul>{rest}"


def to_atom(feed: WatchFeed) -> bytes:
    root = Element("feed", xmlns=ATOM)
    add_element(root, "title", feed.title)
    add_element(root, "id", feed.own)
    add_element(root, "updated", _iso(feed.updated))
    add_element(SubElement(root, "author"), "name", "Tarrafa")
    SubElement(root, "link", rel="self", type=ATOM_TYPE, href=feed.own)
    for one in feed.found:
        entry = SubElement(root, "entry")
        add_element(entry, "title", feed.entry_title(one)).set("type", "text")
        add_element(entry, "id", feed.entry_id(one))
        add_element(entry, "updated", _iso(one.at))
        SubElement(entry, "link", rel="alternate", type="text/html", href=feed.entry_link(one))
        add_element(entry, "content", feed.entry_content(one)).set("type", "html")
    return xml_document(root)


def to_rss(feed: WatchFeed) -> bytes:
    root = Element("rss", version="2.0")
    channel = SubElement(root, "channel")
    for name, text in (("title", feed.title), ("link", f"{feed.base}/"), ("description", feed.title)):
        add_element(channel, name, text)
    add_element(channel, "lastBuildDate", _rfc822(feed.updated))
    SubElement(channel, f"{{{ATOM}}}link", rel="self", type=RSS_TYPE, href=feed.own)
    for one in feed.found:
        item = SubElement(channel, "item")
        add_element(item, "title", feed.entry_title(one))
        add_element(item, "link", feed.entry_link(one))
        add_element(item, "guid", feed.entry_id(one)).set("isPermaLink", "false")
        add_element(item, "pubDate", _rfc822(one.at))
        add_element(item, "description", feed.entry_content(one))
    return xml_document(root)


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _rfc822(at: float) -> str:
    return format_datetime(datetime.fromtimestamp(at, UTC), usegmt=True)
