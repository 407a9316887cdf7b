"""Public form to suggest a site, and the console page and REST routes that decide on suggestions.

The form at /suggest-site is public and exists only if the operator has enabled it; on the admin page suggestions become
roots of a collection, or are rejected. Promises: nothing is stored about the person who suggests, neither in the list
nor in the audit log; the number of suggestions per address is limited, and those of bots (honeypot field) are thanked
for and dropped.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import collection_edits
from tarrafa.coordinator.definitions.draft import InvalidDraft
from tarrafa.coordinator.suggestions import LISTED_MAX, WAITING_MAX, Suggestions, SuggestionsResponse
from tarrafa.errors import Busy, ConfigError
from tarrafa.i18n import message
from tarrafa.parse.url import URL_LENGTH_MAX
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.error_status import RequestRefused
from tarrafa.server.page_responses import json_response
from tarrafa.server.rate_limit import TokenBuckets
from tarrafa.server.search.params import integer_param

FORM_PATH, PAGE_PATH = "/suggest-site", "/console/suggestions"
SUGGESTIONS_PER_S = 0.05  # of one address, after a few at once
FORM_BYTES_MAX = 32 << 10
TYPED_CHARS_SHOWN = 500
HONEYPOT_FIELD = "website"  # a field that no person sees
SUGGESTING_IS_HARMLESS = "it adds a line to a list that people read, and nothing else"
AUDIT_ACTION, SWITCH_ACTION = "decide on suggestions", "switch suggestions on or off"

DecisionVerb = Literal["accept", "reject"]


class SuggestionsParams(msgspec.Struct, frozen=True):
    """The page of the waiting suggestions."""

    offset: Annotated[int, Meta(ge=0, le=WAITING_MAX, description=str(message("how many to skip")))] = 0
    n: Annotated[int, Meta(ge=1, le=LISTED_MAX, description=str(message("how many")))] = LISTED_MAX


class SuggestionsSwitch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether visitors can suggest sites."""

    is_on: bool


class DecisionRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A decision on suggestions: accepted ones become roots of the collection."""

    decision: DecisionVerb
    urls: Annotated[list[Annotated[str, Meta(max_length=URL_LENGTH_MAX)]], Meta(min_length=1, max_length=LISTED_MAX)]
    collection: Annotated[str, Meta(max_length=100)] = ""


class SuggestionPages:
    """The form, the page and the routes."""

    def __init__(self, coordinator: Coordinator, suggestions: Suggestions) -> None:
        self._coordinator, self._suggestions = coordinator, suggestions
        self._buckets = TokenBuckets(SUGGESTIONS_PER_S)

    def guarded_routes(self) -> list[GuardedRoute]:
        admin, anybody, most = AccessLevel.ADMIN, AccessLevel.OPEN, FORM_BYTES_MAX
        return [
            GuardedRoute("GET", FORM_PATH, anybody, self.suggest_form),
            GuardedRoute(
                "POST",
                FORM_PATH,
                anybody,
                self.suggest,
                harmless=SUGGESTING_IS_HARMLESS,
                audited=False,
                body_bytes_max=most,
            ),
            GuardedRoute("GET", PAGE_PATH, admin, self.page),
            GuardedRoute("GET", f"{PAGE_PATH}.json", admin, self.page_json),
            GuardedRoute("POST", f"{PAGE_PATH}/switch", admin, self.switch, SWITCH_ACTION),
            GuardedRoute("POST", f"{PAGE_PATH}/decide", admin, self.decide, AUDIT_ACTION),
        ]

    def api_routes(self) -> list[ApiRoute]:
        admin, at = AccessLevel.ADMIN, "/suggestions"
        decide, decided = message("Accept suggestions or reject them"), f"{at}/decisions"
        return [
            ApiRoute("GET", at, message("Suggested sites"), admin, self.list_suggestions),
            ApiRoute("PUT", at, message("Enable or disable suggestions"), admin, self.switch_by_api, SWITCH_ACTION),
            ApiRoute("POST", decided, decide, admin, self.decide_by_api, AUDIT_ACTION),
        ]

    # -- for everybody ------------------------------------------------------------------------------------------------

    async def suggest_form(self, request: ConsoleRequest) -> Response:
        self._require_switched_on()
        return self._form_response(request, thanks=bool(request.http.query_params.get("done")))

    async def suggest(self, request: ConsoleRequest) -> Response:
        self._require_switched_on()
        typed, thanks = request.form.get("url").strip(), request.redirect(f"{FORM_PATH}?done=1")
        wait_s = self._buckets.take(request.authenticator.client_address_of(request.http))
        _ = request.translator
        if wait_s:
            response = self._form_response(
                request, 429, typed, _("Too many suggestions came from your address: wait a minute and send it again.")
            )
            response.headers["Retry-After"] = str(math.ceil(wait_s))
            return response
        if request.form.get(HONEYPOT_FIELD):
            return thanks
        try:
            await asyncio.to_thread(self._suggestions.suggest, typed, self._coordinator.clock.now())
        except ConfigError:
            return self._form_response(
                request,
                400,
                typed,
                _("This is no address of a site: write for example https://www.example.br/ or www.example.br."),
            )
        except Busy:
            return self._form_response(
                request, 503, typed, _("Too many suggestions wait to be read: come again in a few days.")
            )
        return thanks

    def _form_response(
        self, request: ConsoleRequest, code: int = 200, typed: str = "", sentence: str = "", thanks: bool = False
    ) -> Response:
        shown = typed[:TYPED_CHARS_SHOWN]
        return request.html(
            "suggest_site.html",
            code,
            typed=shown,
            sentence=sentence,
            thanks=thanks,
            trap=HONEYPOT_FIELD,
            form=FORM_PATH,
        )

    def _require_switched_on(self) -> None:
        if not self._suggestions.is_on:
            raise HTTPException(404)

    # -- for those who decide -----------------------------------------------------------------------------------------

    async def page(self, request: ConsoleRequest) -> Response:
        return await self._page_response(request)

    async def page_json(self, request: ConsoleRequest) -> Response:
        return json_response(await asyncio.to_thread(self._suggestions.list_waiting, _offset(request)))

    async def switch(self, request: ConsoleRequest) -> Response:
        on = bool(request.form.get("on"))
        request.audit_note("suggestions", "on" if on else "off")
        await asyncio.to_thread(self._suggestions.set_enabled, on=on)
        return request.redirect(PAGE_PATH)

    async def decide(self, request: ConsoleRequest) -> Response:
        form = request.form
        urls, verb, name = form.all("url")[:LISTED_MAX], form.get("decision"), form.get("collection")
        decision: DecisionVerb | None = next((one for one in ("accept", "reject") if one == verb), None)
        if decision is None:
            raise RequestRefused(400, message("there is no such decision"))
        try:
            await self._decide(request, urls, decision, name)
        except InvalidDraft as error:
            return await self._page_response(
                request, 400, request.translator.render(error.complaints[0].message), urls, name
            )
        return request.redirect(PAGE_PATH)

    async def _page_response(
        self, request: ConsoleRequest, code: int = 200, sentence: str = "", chosen: Sequence[str] = (), name: str = ""
    ) -> Response:
        offset = _offset(request)
        waiting = await asyncio.to_thread(self._suggestions.list_waiting, offset)
        names = [one.name for one in self._coordinator.monitor.snapshot().collections]
        return request.html(
            "console/suggestions.html",
            code,
            section=PAGE_PATH,
            waiting=waiting,
            names=names,
            sentence=sentence,
            chosen=chosen,
            name=name,
            offset=offset,
            step=LISTED_MAX,
            form=FORM_PATH,
        )

    async def _decide(self, request: ConsoleRequest, urls: Sequence[str], verb: DecisionVerb, name: str) -> None:
        """First the collection, then the list: after an interruption in between, the same decision again has no further
        effect."""
        waiting = await asyncio.to_thread(self._suggestions.filter_waiting, urls)
        request.audit_note(name if verb == "accept" else "suggestions", f"{verb}: {' '.join(waiting)}")
        if verb == "accept":
            await collection_edits.add_roots(self._coordinator, name, waiting, request.principal.name)
            await asyncio.to_thread(self._suggestions.decide, waiting, "accepted", name)
        else:
            await asyncio.to_thread(self._suggestions.decide, waiting, "rejected")

    # -- for programs -------------------------------------------------------------------------------------------------

    async def list_suggestions(self, request: ConsoleRequest, query: SuggestionsParams) -> SuggestionsResponse:
        return await asyncio.to_thread(self._suggestions.list_waiting, query.offset, query.n)

    async def switch_by_api(self, request: ConsoleRequest, body: SuggestionsSwitch) -> SuggestionsSwitch:
        request.audit_note("suggestions", "on" if body.is_on else "off")
        await asyncio.to_thread(self._suggestions.set_enabled, on=body.is_on)
        return body

    async def decide_by_api(self, request: ConsoleRequest, body: DecisionRequest) -> SuggestionsResponse:
        await self._decide(request, body.urls, body.decision, body.collection)
        return await asyncio.to_thread(self._suggestions.list_waiting)


def _offset(request: ConsoleRequest) -> int:
    return min(max(0, integer_param(request.http.query_params, "offset", 0)), WAITING_MAX)
