"""A polite crawler in the standard library alone: Tarrafa says what to fetch and when, this says what came of it.

TARRAFA_TOKEN=... python crawler.py http://127.0.0.1:8080 NAME     (docs/external-crawlers.md explains each call)
"""

import json
import os
import re
import sys
import time
from html.parser import HTMLParser
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

SERVER, NAME = sys.argv[1].rstrip("/"), sys.argv[2]


class Page(HTMLParser):
    """Title, words, links and wishes of a page."""

    def __init__(self, html):
        super().__init__()
        self.title = self.text = self.base = self.robots = self.tag = ""
        self.links = []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.tag = tag
        if tag in ("a", "area") and given.get("href"):
            self.links.append({"url": given["href"], "anchor": "", "rel": given.get("rel", "")})
        elif tag == "base":
            self.base = given.get("href", "")
        elif tag == "meta" and given.get("name", "").lower() == "robots":
            self.robots += f",{given.get('content', '')}"

    def handle_endtag(self, tag):
        self.tag = ""

    def handle_data(self, data):
        if self.tag == "title":
            self.title += data
        elif self.tag not in ("script", "style"):
            self.text += data
            if self.tag == "a" and self.links:
                self.links[-1]["anchor"] += data


class StayHere(HTTPRedirectHandler):
    """Where a redirect leads is for Tarrafa to decide."""

    def redirect_request(self, *_):
        return None


web = build_opener(StayHere, ProxyHandler({}))


def tell(what, **said):
    """One of the conversations."""
    token = {"Authorization": f"Bearer {os.environ['TARRAFA_TOKEN']}"}
    body = json.dumps({"crawler": NAME, **said}).encode()
    with web.open(Request(f"{SERVER}/crawl/v1/{what}", body, token), timeout=90) as answer:
        return json.load(answer)


def fetch(visit):
    """What the server says, and the body."""
    where, started = urlsplit(visit["url"]), time.monotonic()
    target = f"{where.scheme}://{visit['connect_to'] or where.netloc}{where.path}{'?' * bool(where.query)}{where.query}"
    headers = {"User-Agent": visit["user_agent"], "From": visit["email"], "Host": where.netloc}
    headers |= {"If-None-Match": visit["etag"], "If-Modified-Since": visit["last_modified"]}
    asked = Request(target, headers={name: value for name, value in headers.items() if value})
    try:
        try:
            answer = web.open(asked, timeout=15)  # in time to call again before the lease is over
        except HTTPError as error:
            answer = error
        body = answer.read(visit["size_max"] + 1)
    except OSError as error:
        return {"status": -11, "error": str(error)}, b""
    said = {"status": answer.status, "length": len(body), "elapsed_s": time.monotonic() - started}
    names = {"type": "content-type", "etag": "etag", "last_modified": "last-modified", "location": "location"}
    said |= {field: answer.headers.get(name, "") for field, name in names.items()}
    return said | {"robots": answer.headers.get("x-robots-tag", "")}, body


def visit(wanted):
    """Fetch one URL, tell its links, then what it is."""
    said, body = fetch(wanted)
    me = {"url": wanted["url"], "visit": wanted["visit"]}
    named = re.search(rb"charset=[\"']?([\w-]+)", said.get("type", "").encode() + b" " + body[:1024])
    charset = named[1].decode() if named else "utf-8"
    said["text"] = body.decode(charset, "replace")
    if wanted["role"] == "page" and said["status"] == 200 and "html" in said["type"]:
        page = Page(said["text"])
        source = {"from": wanted["url"], "visit": wanted["visit"], "base": page.base, "charset": charset}
        tell("links", to=page.links[:5000], **source)
        said |= {"title": page.title, "text": page.text, "robots": said["robots"] + page.robots}
    tell("type", **me, **said)


try:
    work = tell("work", hosts=4, restarted=True)
    while work["running"]:
        for one in work["visits"]:
            time.sleep(one["wait_s"])
            visit(one)
        time.sleep(work["ask_again_s"])
        work = tell("work", hosts=4)
except HTTPError as error:  # 503: the crawl is over, or stands still; 410: we were too slow
    sys.exit(f"{error.code}: {json.load(error)['error']}")
