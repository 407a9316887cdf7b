"""What does the Web of a collection look like, on a page?

Promises: a report is made when somebody asks for it, beside everything else, and the page says how far it is; those
made before stay, can be opened, taken along as files, and compared with.
"""

import asyncio
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from tarrafa.coordinate.closeup import collection_of, picture
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.reaching import Place, places
from tarrafa.frontier.token import Token
from tarrafa.report import writers
from tarrafa.report.desk import Desk
from tarrafa.report.neighbours import Neighbours
from tarrafa.report.participants import Node, participants
from tarrafa.report.shapes import Report
from tarrafa.report.texts.choosing import LANGUAGES
from tarrafa.serve.console.api import Api, Call
from tarrafa.serve.console.doors import Door, Visit
from tarrafa.serve.console.entry import Need
from tarrafa.serve.console.programs import AT
from tarrafa.serve.console.streaming import Streams
from tarrafa.serve.replies import json

SHOWN, RUNS_SHOWN = 20, 100


Moment = Annotated[str, Meta(max_length=15, pattern=r"^(\d{8}-\d{6})?$", description="20261116-140200")]


RunNumber = Annotated[int, Meta(ge=1, lt=10**9)]


class ReportAsked(msgspec.Struct, frozen=True):
    """Which one; by default the newest."""

    at: Moment = ""


class ReportWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """With which former one it is compared, if any; `hl`: the language of its files; `run`: only that one of its runs,
    else all of them together."""

    earlier: Moment = ""
    hl: Literal["en", "pt"] = "en"
    run: RunNumber | None = None


class MakingTold(msgspec.Struct, frozen=True):
    """A report that is being made: which part of the archives is read; or why it was not made."""

    share: float
    trouble: str


class ReportsTold(msgspec.Struct, frozen=True):
    """When reports were made, the newest first; and the one that is being made."""

    moments: list[str]
    making: MakingTold | None


class Reporting:
    """The pages and routes about reports. `token`: what other nodes are asked with."""

    def __init__(self, coordinator: Coordinator, streams: Streams, desk: Desk, token: Token) -> None:
        self._coordinator, self._streams, self._desk, self._token = coordinator, streams, desk, token

    def doors(self) -> list[Door]:
        look, at = Need.VIEWER, "/console/c/{name}/report"
        return [
            Door("GET", "/console/report.css", Need.OPEN, self.style),
            Door("GET", f"{at}.json", look, self.report_json),
            Door("GET", at, look, self.report),
            Door("GET", f"{at}/live", look, self.live),
            Door("GET", f"{at}/{{moment}}/{{file:path}}", look, self.file),
            Door("POST", at, Need.ADMIN, self.begin, "make a report"),
        ]

    def register(self, api: Api) -> None:
        look, at = Need.VIEWER, f"{AT}/reports"
        api.route("GET", at, "Its reports", look, answer=ReportsTold)(self.listed)
        api.route(
            "POST", at, "Make a report; one at a time", Need.ADMIN, body=ReportWanted, answer=ReportsTold, code=202,
            action="make a report",
        )(self.order)  # fmt: skip
        api.route("GET", f"{AT}/report", "A report that was made", look, query=ReportAsked, answer=Report)(self.read)

    async def style(self, visit: Visit) -> Response:
        return Response(writers.style(), media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    async def report(self, visit: Visit) -> Response:
        name = self._name(visit)
        moments = self._desk.moments(name)
        moment = visit.request.query_params.get("at", "") or (moments[0] if moments else "")
        runs = self._coordinator.ledger.runs(name)[:RUNS_SHOWN]
        article = ""
        if moment:
            texts, drawn = LANGUAGES[visit.words.code], self._desk.plots(name, moment)
            article = writers.article(
                self._desk.read(name, moment), texts, drawn, plots=f"/console/c/{name}/report/{moment}/plots/"
            )
        return visit.html(
            "console/report.html", section="/console", name=name, moment=moment, article=article,
            moments={one: self._desk.run_of(name, one) for one in moments[:SHOWN]}, making=self._making(name),
            runs=runs, usual_run=next((one.number for one in runs if one.visits), None) if len(runs) > 1 else None,
        )  # fmt: skip

    async def report_json(self, visit: Visit) -> Response:
        return json(self._desk.read(self._name(visit), visit.request.query_params.get("at", "")))

    async def live(self, visit: Visit) -> Response:
        name = self._name(visit)
        begun_with = self._desk.moments(name)[:1]

        def more(picture: Any) -> dict[str, Any]:
            return {"done": self._desk.moments(name)[:1] != begun_with}

        def parts(picture: Any) -> dict[str, tuple[str, dict[str, Any]]]:
            return {"making": ("console/making_part.html", {"making": self._making(name)})}

        return self._streams.answer(visit, parts, more)

    async def begin(self, visit: Visit) -> Response:
        wanted = visit.form.get("run")
        run = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else None
        self._begin(visit, visit.words.code, visit.form.get("earlier"), run)
        return visit.to(f"/console/c/{visit.param('name')}/report")

    def _begin(self, visit: Visit, language: str, earlier: str, run: int | None) -> None:
        name = self._name(visit)
        visit.note(name)
        nodes, now = [one.node for one in self._coordinator.picture().nodes], self._coordinator.now()
        reached = places(self._coordinator.nodes.answering(time.time()))
        machines, others = participants(
            (Node(one.name, one.beat.machine, reached.get(one.name, Place()).url, one.own) for one in nodes),
            self._coordinator.use.meanwhile(name, now, run),
        )
        self._desk.begin(name, LANGUAGES[language], now, machines, earlier, Neighbours(others, self._token), run)

    async def file(self, visit: Visit) -> Response:
        found = self._desk.file(self._name(visit), visit.param("moment"), visit.param("file"))
        if found is None:
            raise HTTPException(404)
        return FileResponse(found)

    # -- for programs -------------------------------------------------------------------------------------------------

    async def listed(self, call: Call) -> ReportsTold:
        return self._told(self._name(call.visit))

    async def read(self, call: Call) -> Report:
        asked: ReportAsked = call.query
        return await asyncio.to_thread(self._desk.read, self._name(call.visit), asked.at)

    async def order(self, call: Call) -> ReportsTold:
        asked: ReportWanted = call.body
        self._begin(call.visit, asked.hl, asked.earlier, asked.run)
        return self._told(call.param("name"))

    def _told(self, name: str) -> ReportsTold:
        making = self._making(name)
        told = MakingTold(making.share, making.trouble) if making is not None else None
        return ReportsTold(self._desk.moments(name), told)

    def _making(self, name: str) -> Any:
        making = self._desk.making
        return making if making is not None and making.name == name else None

    def _name(self, visit: Visit) -> str:
        return collection_of(picture(self._coordinator), visit.param("name")).name
