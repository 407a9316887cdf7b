"""Console page and REST routes of reports: make one, watch its progress, read and download.

Promises: a report is made on request, beside other work, and the page shows its progress; earlier reports are kept, and
can be opened, downloaded and compared with.
"""

import asyncio
import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.node.search_peers import PeerAddress, peer_addresses
from tarrafa.i18n import Message, message, translator
from tarrafa.report import writers
from tarrafa.report.distributed.part_requests import RemoteNodes, ReportNode, find_participants
from tarrafa.report.report_store import ReportStore
from tarrafa.report.schema import CollectionReport
from tarrafa.runtime.token import Token
from tarrafa.server.api.api_route import ApiRoute
from tarrafa.server.api.collection_routes import COLLECTION_PATH
from tarrafa.server.auth.required_role import AccessLevel, GuardedRoute
from tarrafa.server.auth.role_and_csrf_guard import ConsoleRequest
from tarrafa.server.console.event_stream import LiveUpdates
from tarrafa.server.page_responses import json_response

REPORTS_SHOWN, RUNS_SHOWN = 20, 100

ReportTime = Annotated[str, Meta(max_length=15, pattern=r"^(\d{8}-\d{6})?$", description="20261116-140200")]
RunNumber = Annotated[int, Meta(ge=1, lt=10**9)]


class ReportParams(msgspec.Struct, frozen=True):
    """The report; by default the newest."""

    at: ReportTime = ""


class MakeReportRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`earlier`: a report to compare with; `hl`: the language of the files; `run`: only this run, else all."""

    earlier: ReportTime = ""
    hl: Literal["en", "pt"] = "en"
    run: RunNumber | None = None


class ReportProgressView(msgspec.Struct, frozen=True):
    """A report in progress: the share of the archives that is read; or why it failed."""

    share: float
    trouble: Message | str


class ReportListResponse(msgspec.Struct, frozen=True):
    """The times of the reports, the newest first; and the one in progress."""

    moments: list[str]
    making: ReportProgressView | None


class ReportPages:
    """The pages and routes about reports. `token`: for requests to other nodes."""

    def __init__(self, coordinator: Coordinator, live: LiveUpdates, reports: ReportStore, token: Token) -> None:
        self._coordinator, self._live, self._reports, self._token = coordinator, live, reports, token

    def guarded_routes(self) -> list[GuardedRoute]:
        look, at = AccessLevel.VIEWER, "/console/c/{name}/report"
        return [
            GuardedRoute("GET", "/console/report.css", AccessLevel.OPEN, self.style),
            GuardedRoute("GET", f"{at}.json", look, self.report_json),
            GuardedRoute("GET", at, look, self.report_page),
            GuardedRoute("GET", f"{at}/live", look, self.live),
            GuardedRoute("GET", f"{at}/{{moment}}/{{file:path}}", look, self.report_file),
            GuardedRoute("POST", at, AccessLevel.ADMIN, self.start_report, "make a report"),
        ]

    def api_routes(self) -> list[ApiRoute]:
        view, admin, at = AccessLevel.VIEWER, AccessLevel.ADMIN, COLLECTION_PATH
        return [
            ApiRoute("GET", f"{at}/reports", message("Its reports"), view, self.list_reports),
            ApiRoute(
                "POST",
                f"{at}/reports",
                message("Make a report; one at a time"),
                admin,
                self.make_report,
                "make a report",
                202,
            ),
            ApiRoute("GET", f"{at}/report", message("A report that was made"), view, self.get_report),
        ]

    async def style(self, request: ConsoleRequest) -> Response:
        return Response(writers.stylesheet(), media_type="text/css", headers={"Cache-Control": "max-age=3600"})

    async def report_page(self, request: ConsoleRequest) -> Response:
        name = self._name(request)
        moments = self._reports.moments(name)
        moment = request.http.query_params.get("at", "") or (moments[0] if moments else "")
        runs = self._coordinator.store.runs(name)[:RUNS_SHOWN]
        article = ""
        if moment:
            drawn = self._reports.plots(name, moment)
            article = writers.report_article(
                self._reports.read(name, moment),
                request.translator,
                drawn,
                plots=f"/console/c/{name}/report/{moment}/plots/",
            )
        return request.html(
            "console/report.html",
            section="/console",
            name=name,
            moment=moment,
            article=article,
            moments={one: self._reports.run_of(name, one) for one in moments[:REPORTS_SHOWN]},
            making=self._report_in_progress(name),
            runs=runs,
            usual_run=next((one.number for one in runs if one.visits), None) if len(runs) > 1 else None,
        )

    async def report_json(self, request: ConsoleRequest) -> Response:
        return json_response(self._reports.read(self._name(request), request.http.query_params.get("at", "")))

    async def live(self, request: ConsoleRequest) -> Response:
        name = self._name(request)
        begun_with = self._reports.moments(name)[:1]

        def more(snapshot: Any) -> dict[str, Any]:
            return {"done": self._reports.moments(name)[:1] != begun_with}

        def parts(snapshot: Any) -> dict[str, tuple[str, dict[str, Any]]]:
            return {"making": ("console/report_progress_part.html", {"making": self._report_in_progress(name)})}

        return self._live.stream(request, parts, more)

    async def start_report(self, request: ConsoleRequest) -> Response:
        wanted = request.form.get("run")
        run = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else None
        self._start_report(request, request.translator.code, request.form.get("earlier"), run)
        return request.redirect(f"/console/c/{request.param('name')}/report")

    def _start_report(self, request: ConsoleRequest, language: str, earlier: str, run: int | None) -> None:
        name = self._name(request)
        request.audit_note(name)
        nodes, now = [one.node for one in self._coordinator.monitor.snapshot().nodes], self._coordinator.clock.now()
        reached = peer_addresses(self._coordinator.nodes.search_nodes(time.time()))
        machines, others = find_participants(
            (
                ReportNode(one.name, one.beat.machine, reached.get(one.name, PeerAddress()).url, one.own)
                for one in nodes
            ),
            self._coordinator.monitor.utilization.during_runs(name, now, run),
        )
        self._reports.start_report(
            name, translator(language), now, machines, earlier, RemoteNodes(others, self._token), run
        )

    async def report_file(self, request: ConsoleRequest) -> Response:
        found = self._reports.file(self._name(request), request.param("moment"), request.param("file"))
        if found is None:
            raise HTTPException(404)
        return FileResponse(found)

    # -- for programs -------------------------------------------------------------------------------------------------

    async def list_reports(self, request: ConsoleRequest) -> ReportListResponse:
        return self._report_list(self._name(request))

    async def get_report(self, request: ConsoleRequest, query: ReportParams) -> CollectionReport:
        return await asyncio.to_thread(self._reports.read, self._name(request), query.at)

    async def make_report(self, request: ConsoleRequest, body: MakeReportRequest) -> ReportListResponse:
        self._start_report(request, body.hl, body.earlier, body.run)
        return self._report_list(request.param("name"))

    def _report_list(self, name: str) -> ReportListResponse:
        making = self._report_in_progress(name)
        progress = ReportProgressView(making.share, making.trouble) if making is not None else None
        return ReportListResponse(self._reports.moments(name), progress)

    def _report_in_progress(self, name: str) -> Any:
        making = self._reports.making
        return making if making is not None and making.name == name else None

    def _name(self, request: ConsoleRequest) -> str:
        return self._coordinator.monitor.current_snapshot().collection(request.param("name")).name
