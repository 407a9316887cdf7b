"""The console's page of watches, and their REST routes."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.captures.archived_site import SiteArchive
from tests.server.console.coordinator_site import NAME, coordinator_site
from tests.server.console.example_console import ADMIN, VIEWER
from tests.wait import block_until

PAGE = "http://www.site.test/a"


def test_a_watch_is_added_listed_and_removed_by_the_api(furnished: Any) -> None:
    program = furnished.program()
    body = {"kind": "page", "what": PAGE, "email": ["reader@example.br"], "webhook": "https://hook.test/secret"}
    made = program.send("POST", "/api/v1/watches", body)
    assert made.code == 201
    one = made.json
    assert one["what"] == PAGE and one["period"] == "0 s" and "secret" not in one["webhook"]
    assert program.get("/api/v1/watches").json == [one]
    assert program.get(one["feed"]).code == 200
    assert program.ask("DELETE", f"/api/v1/watches/{one['number']}").code == 204
    assert program.ask("DELETE", f"/api/v1/watches/{one['number']}").code == 404
    assert program.ask("DELETE", "/api/v1/watches/x").code == 404
    assert program.get(one["feed"]).code == 404
    assert any("watch this page" in line and "secret" not in line for line in furnished.told)


def test_what_cannot_be_watched_is_400(furnished: Any) -> None:
    for body in ({"kind": "page", "what": "x:"}, {"kind": "host", "what": PAGE}, {"kind": "page"}, {"what": PAGE}):
        assert furnished.program().send("POST", "/api/v1/watches", body).code == 400


def test_only_admins_see_and_change_watches(furnished: Any) -> None:
    viewer = furnished.signed_in(VIEWER)
    assert viewer.get("/api/v1/watches").code == 403 and viewer.get("/console/watches").code == 403
    assert furnished.client().get("/api/v1/watches").code in (401, 403)


def test_a_form_adds_and_removes_a_watch_and_says_what_is_wrong(furnished: Any) -> None:
    admin = furnished.signed_in(ADMIN)
    shown = admin.get(f"/console/watches?kind=page&what={PAGE}")
    assert f'value="{PAGE}"' in shown.text
    token = furnished.csrf(admin)
    wrong = admin.form("/console/watches", {"csrf": token, "action": "add", "kind": "site", "what": "com"})
    assert wrong.code == 400 and "not the name of a site" in wrong.text
    fields = {"csrf": token, "action": "add", "kind": "site", "what": "site.test", "collection": NAME, "period": "2 h"}
    assert admin.form("/console/watches", fields).code == 303
    page = admin.get("/console/watches").text
    assert "site.test" in page and "/watch/" in page
    number = furnished.program().get("/api/v1/watches").json[0]["number"]
    gone = {"csrf": token, "action": "remove", "number": str(number)}
    assert admin.form("/console/watches", gone).code == 303
    assert furnished.program().get("/api/v1/watches").json == []


def test_pages_for_readers_lead_to_the_watch_of_what_they_show(furnished: Any) -> None:
    admin = furnished.signed_in(ADMIN)
    found = [admin.get(path).text for path in (f"/page?url={PAGE}", "/site?name=site.test", "/?q=site")]
    assert "/console/watches?kind=page" in found[0]
    assert urlsplit(furnished.address).netloc


def test_a_running_node_tells_what_is_archived_and_calls_the_webhook(tmp_path: Path) -> None:
    """The node's own followers and loop: nothing is called by hand."""
    with coordinator_site(tmp_path) as site, hook_server() as hook:
        body = {"kind": "site", "what": "news.test", "period": "0 s", "webhook": hook.address}
        feed = site.program().send("POST", "/api/v1/watches", body).json["feed"]
        archive = SiteArchive(site.data, "w9", time.time())
        archive.visit("http://news.test/", time.time(), b"<p>first</p>", text="first")
        archive.close()
        block_until(lambda: "1 new page" in site.program().get(feed).text)
        block_until(lambda: bool(hook.bodies))
    assert [one["url"] for one in json.loads(hook.bodies[0])["items"]] == ["http://news.test/"]


class HookServer(ThreadingHTTPServer):
    bodies: list[bytes]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class HookHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, HookServer)
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def hook_server() -> Iterator[HookServer]:
    with HookServer(("127.0.0.1", 0), HookHandler) as server:
        server.bodies = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
