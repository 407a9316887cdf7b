"""What about this URL, this host, and what can be done about it?

Promises: what is told is what `tarrafa explain` tells. A host can be blocked, slowed down, retried and forgotten: the
first two are edits of a collection, so that they have a version and can be taken back like any other. Before a host is
forgotten people see what is lost; afterwards, who did it and when.
"""

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinate.home import Home
from tarrafa.coordinate.hosts import ACTIONS, Hosts, forgotten, url_of
from tarrafa.crawl.explain import Explanation, explain
from tarrafa.crawl.sayings import tongue
from tarrafa.errors import ConfigError
from tarrafa.parse.url import host_key
from tarrafa.serve.asked import address
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.replies import json
from tarrafa.serve.texts.board import board_texts

PAGE = "/console/look"


class Looking:
    """The page about one URL and its host."""

    def __init__(self, home: Home, hosts: Hosts) -> None:
        self._home, self._coordinator, self._hosts = home, home.coordinator, hosts

    def doors(self) -> list[Door]:
        return [
            Door("GET", PAGE, Need.VIEWER, self.look),
            Door("GET", f"{PAGE}.json", Need.VIEWER, self.look_json),
            Door("GET", f"{PAGE}/forget", Need.ADMIN, self.ask_forget),
            Door("POST", f"{PAGE}/host", Need.ADMIN, self.act, "act on a host"),
        ]

    async def look(self, visit: Visit) -> Response:
        asked = visit.request.query_params
        typed, done = asked.get("url", "").strip(), asked.get("done", "")
        if not typed:
            return self._page(visit, typed="", found=None)
        try:
            found = await self._explained(typed, visit.words.code)
        except ConfigError:
            wrong = board_texts(visit.words.code).look_wrong
            return self._page(visit, 400, typed=typed, found=None, sentence=wrong)
        gone = await asyncio.to_thread(forgotten, visit.entry.audit, found.url) if found.host is None else None
        return self._page(visit, typed=typed, found=found, done=bool(done) and gone is None, gone=gone)

    async def ask_forget(self, visit: Visit) -> Response:
        """What is lost, before anything is."""
        typed = visit.request.query_params.get("url", "").strip()
        found = await self._explained(typed, visit.words.code) if typed else None
        if found is None or found.host is None:
            return visit.to(address(PAGE, url=typed))
        return visit.html("console/forget.html", section=PAGE, found=found, host=found.host)

    async def look_json(self, visit: Visit) -> Response:
        return json(await self._explained(visit.request.query_params.get("url", "").strip()))

    async def _explained(self, typed: str, code: str = "en") -> Explanation:
        now, address = self._coordinator.now(), self._home.address
        reasons = {one.name: one.reason.in_language(code) for one in self._coordinator.picture().collections}
        return await explain(self._home.data, url_of(typed), None, now, address, tongue(code), reasons)

    async def act(self, visit: Visit) -> Response:
        form = visit.form
        url, action, name = url_of(form.get("url")), form.get("action"), form.get("collection")
        asked = next((one for one in ACTIONS if one == action), None)
        if asked is None:
            raise HTTPException(400, "there is no such action")
        visit.note(host_key(url), f"{asked} in {name}" if name else asked)
        await self._hosts.act(url, asked, visit.who.name, name, form.get("delay"))
        return visit.to(address(PAGE, url=url, done="1"))

    def _page(self, visit: Visit, code: int = 200, sentence: str = "", done: bool = False, **values: Any) -> Response:
        return visit.html("console/look.html", code, section=PAGE, sentence=sentence, done=done, **values)
