"""Console page that explains a URL and its host, with actions on the host (block, slow, retry, forget).

Promises: shows the same as `tarrafa explain`. A host can be blocked, slowed down, retried and forgotten: the first two
are edits of a collection, so that they have a version and can be reverted like any other. Before a host is forgotten
the page shows what is lost; afterwards, who did it and when.
"""

import asyncio
from typing import Any

from starlette.responses import Response

from tarrafa.coordinator.actions import HOST_ACTIONS, last_forgotten, parse_url_or_host
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.crawl.explain.explain import Explanation, explain
from tarrafa.errors import ConfigError
from tarrafa.i18n import ENGLISH, Translator, message
from tarrafa.parse.url import host_key
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import RequestRefused
from tarrafa.server.search.params import address

LOOKUP_PATH = "/console/look"


class UrlLookupPages:
    """The page about one URL and its host."""

    def __init__(self, node: CoordinatorNode) -> None:
        self._node, self._coordinator = node, node.coordinator

    def guarded_routes(self) -> list[GuardedRoute]:
        return [
            GuardedRoute("GET", LOOKUP_PATH, AccessLevel.VIEWER, self.lookup_page),
            GuardedRoute("GET", f"{LOOKUP_PATH}.json", AccessLevel.VIEWER, self.lookup_json),
            GuardedRoute("GET", f"{LOOKUP_PATH}/forget", AccessLevel.ADMIN, self.confirm_forget),
            GuardedRoute("POST", f"{LOOKUP_PATH}/host", AccessLevel.ADMIN, self.act_on_host, "act on a host"),
        ]

    async def lookup_page(self, request: ConsoleRequest) -> Response:
        params = request.http.query_params
        typed, done = params.get("url", "").strip(), params.get("done", "")
        if not typed:
            return self._page(request, typed="", found=None)
        try:
            found = await self._explain(typed, request.translator)
        except ConfigError:
            _ = request.translator
            wrong = _("This is no URL and no host: write for example https://www.example.br/page or www.example.br.")
            return self._page(request, 400, typed=typed, found=None, sentence=wrong)
        gone = (
            await asyncio.to_thread(last_forgotten, request.authenticator.audit, found.url)
            if found.host is None
            else None
        )
        return self._page(request, typed=typed, found=found, done=bool(done) and gone is None, gone=gone)

    async def confirm_forget(self, request: ConsoleRequest) -> Response:
        """Shows what will be lost."""
        typed = request.http.query_params.get("url", "").strip()
        found = await self._explain(typed, request.translator) if typed else None
        if found is None or found.host is None:
            return request.redirect(address(LOOKUP_PATH, url=typed))
        return request.html("console/forget_host.html", section=LOOKUP_PATH, found=found, host=found.host)

    async def lookup_json(self, request: ConsoleRequest) -> Response:
        return request.json(await self._explain(request.http.query_params.get("url", "").strip()))

    async def _explain(self, typed: str, _: Translator = ENGLISH) -> Explanation:
        now, address = self._coordinator.clock.now(), self._node.frontier_address
        return await explain(self._node.data, parse_url_or_host(typed), None, now, address, _)

    async def act_on_host(self, request: ConsoleRequest) -> Response:
        form = request.form
        url, action, name = parse_url_or_host(form.get("url")), form.get("action"), form.get("collection")
        asked = next((one for one in HOST_ACTIONS if one == action), None)
        if asked is None:
            raise RequestRefused(400, message("there is no such action"))
        request.audit_note(host_key(url), f"{asked} in {name}" if name else asked)
        await self._coordinator.actions.act_on_host(url, asked, request.principal.name, name, form.get("delay"))
        return request.redirect(address(LOOKUP_PATH, url=url, done="1"))

    def _page(
        self, request: ConsoleRequest, code: int = 200, sentence: str = "", done: bool = False, **values: Any
    ) -> Response:
        return request.html(
            "console/url_lookup.html", code, section=LOOKUP_PATH, sentence=sentence, done=done, **values
        )
