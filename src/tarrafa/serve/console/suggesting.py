"""How do visitors suggest a site, and who reads it?

A form for everybody at /suggest-site, which is not there unless somebody has switched it on, and a page for admins on
which suggestions become roots of a collection, or not. Promises: of whoever suggests nothing is kept, neither in the
list nor in the audit; from one address come only so many, and what a machine fills in is thanked for and thrown away.
"""

import asyncio
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tarrafa.coordinate import authoring
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.drafts import Unfit
from tarrafa.coordinate.suggested import LISTED_MAX, WAITING_MAX, Suggestions, SuggestionsTold
from tarrafa.errors import Busy, ConfigError
from tarrafa.parse.url import URL_LENGTH_MAX
from tarrafa.serve.asked import whole
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.rates import Buckets
from tarrafa.serve.replies import json

FORM, PAGE = "/suggest-site", "/console/suggestions"
PER_S = 0.05  # of one address, after a few at once
FORM_BYTES_MAX = 32 << 10
TYPED_CHARS_SHOWN = 500
TRAP = "website"  # a field that no person sees
HARMLESS = "it adds a line to a list that people read, and nothing else"
ACTION = "decide on suggestions"

Verb = Literal["accept", "reject"]


class SuggestionsAsked(msgspec.Struct, frozen=True):
    """Which of those that wait."""

    offset: Annotated[int, Meta(ge=0, le=WAITING_MAX, description="how many to skip")] = 0
    n: Annotated[int, Meta(ge=1, le=LISTED_MAX, description="how many")] = LISTED_MAX


class Switched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether visitors can suggest sites."""

    is_on: bool


class Decided(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What becomes of suggestions: accepted, they are roots of the collection."""

    decision: Verb
    urls: Annotated[list[Annotated[str, Meta(max_length=URL_LENGTH_MAX)]], Meta(min_length=1, max_length=LISTED_MAX)]
    collection: Annotated[str, Meta(max_length=100)] = ""


class Suggesting:
    """The form, the page and the routes."""

    def __init__(self, coordinator: Coordinator, suggestions: Suggestions) -> None:
        self._coordinator, self._suggestions = coordinator, suggestions
        self._buckets = Buckets(PER_S)

    def doors(self) -> list[Door]:
        admin, anybody, most = Need.ADMIN, Need.OPEN, FORM_BYTES_MAX
        return [
            Door("GET", FORM, anybody, self.form),
            Door("POST", FORM, anybody, self.suggest, harmless=HARMLESS, audited=False, body_bytes_max=most),
            Door("GET", PAGE, admin, self.page),
            Door("GET", f"{PAGE}.json", admin, self.page_json),
            Door("POST", f"{PAGE}/switch", admin, self.switch, "switch suggestions on or off"),
            Door("POST", f"{PAGE}/decide", admin, self.decide, ACTION),
        ]

    def register(self, api: Api) -> None:
        admin, route = Need.ADMIN, api.route
        route("GET", "/suggestions", "What visitors suggest", admin, query=SuggestionsAsked, answer=SuggestionsTold)(
            self.listed
        )
        route(
            "PUT", "/suggestions", "Whether visitors can suggest sites", admin, body=Switched, answer=Switched,
            action="switch suggestions on or off",
        )(self.switched)  # fmt: skip
        route(
            "POST", "/suggestions/decisions", "Accept suggestions or reject them", admin, body=Decided,
            answer=SuggestionsTold, action=ACTION,
        )(self.decided)  # fmt: skip

    # -- for everybody ------------------------------------------------------------------------------------------------

    async def form(self, visit: Visit) -> Response:
        self._must_be_on()
        return self._form(visit, thanks=bool(visit.request.query_params.get("done")))

    async def suggest(self, visit: Visit) -> Response:
        self._must_be_on()
        typed, thanks = visit.form.get("url").strip(), visit.to(f"{FORM}?done=1")
        wait_s = self._buckets.take(visit.entry.address_of(visit.request))
        words = visit.common()["b"]
        if wait_s:
            response = self._form(visit, 429, typed, words.suggest_too_many)
            response.headers["Retry-After"] = str(math.ceil(wait_s))
            return response
        if visit.form.get(TRAP):
            return thanks
        try:
            await asyncio.to_thread(self._suggestions.suggest, typed, self._coordinator.now())
        except ConfigError:
            return self._form(visit, 400, typed, words.suggest_wrong)
        except Busy:
            return self._form(visit, 503, typed, words.suggest_full)
        return thanks

    def _form(
        self, visit: Visit, code: int = 200, typed: str = "", sentence: str = "", thanks: bool = False
    ) -> Response:
        shown = typed[:TYPED_CHARS_SHOWN]
        return visit.html(
            "suggest_site.html", code, typed=shown, sentence=sentence, thanks=thanks, trap=TRAP, form=FORM
        )

    def _must_be_on(self) -> None:
        if not self._suggestions.is_on:
            raise HTTPException(404)

    # -- for those who decide -----------------------------------------------------------------------------------------

    async def page(self, visit: Visit) -> Response:
        return await self._page(visit)

    async def page_json(self, visit: Visit) -> Response:
        return json(await asyncio.to_thread(self._suggestions.told, _offset(visit)))

    async def switch(self, visit: Visit) -> Response:
        on = bool(visit.form.get("on"))
        visit.note("suggestions", "on" if on else "off")
        await asyncio.to_thread(self._suggestions.switch, on=on)
        return visit.to(PAGE)

    async def decide(self, visit: Visit) -> Response:
        form = visit.form
        urls, verb, name = form.all("url")[:LISTED_MAX], form.get("decision"), form.get("collection")
        decision: Verb | None = next((one for one in ("accept", "reject") if one == verb), None)
        if decision is None:
            raise HTTPException(400, "there is no such decision")
        try:
            await self._decide(visit, urls, decision, name)
        except Unfit as error:
            return await self._page(visit, 400, error.complaints[0].message, urls, name)
        return visit.to(PAGE)

    async def _page(
        self, visit: Visit, code: int = 200, sentence: str = "", chosen: Sequence[str] = (), name: str = ""
    ) -> Response:
        offset = _offset(visit)
        told = await asyncio.to_thread(self._suggestions.told, offset)
        names = [one.name for one in self._coordinator.picture().collections]
        return visit.html(
            "console/suggestions.html", code, section=PAGE, told=told, names=names, sentence=sentence, chosen=chosen,
            name=name, offset=offset, step=LISTED_MAX, form=FORM,
        )  # fmt: skip

    async def _decide(self, visit: Visit, urls: Sequence[str], verb: Verb, name: str) -> None:
        """First the collection, then the list: who is interrupted in between decides once more, which changes
        nothing twice."""
        waiting = await asyncio.to_thread(self._suggestions.waiting, urls)
        visit.note(name if verb == "accept" else "suggestions", f"{verb}: {' '.join(waiting)}")
        if verb == "accept":
            await authoring.add_roots(self._coordinator, name, waiting, visit.who.name)
            await asyncio.to_thread(self._suggestions.decide, waiting, "accepted", name)
        else:
            await asyncio.to_thread(self._suggestions.decide, waiting, "rejected")

    # -- for programs -------------------------------------------------------------------------------------------------

    async def listed(self, call: Call) -> SuggestionsTold:
        asked: SuggestionsAsked = call.query
        return await asyncio.to_thread(self._suggestions.told, asked.offset, asked.n)

    async def switched(self, call: Call) -> Switched:
        asked: Switched = call.body
        call.visit.note("suggestions", "on" if asked.is_on else "off")
        await asyncio.to_thread(self._suggestions.switch, on=asked.is_on)
        return asked

    async def decided(self, call: Call) -> SuggestionsTold:
        asked: Decided = call.body
        await self._decide(call.visit, asked.urls, asked.decision, asked.collection)
        return await asyncio.to_thread(self._suggestions.told)


def _offset(visit: Visit) -> int:
    return min(max(0, whole(visit.request.query_params, "offset", 0)), WAITING_MAX)
