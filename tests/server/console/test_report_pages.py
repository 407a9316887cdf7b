"""A report in the console is of one run, or of all, as whoever asks chooses."""

import threading
from typing import Any

from tarrafa.report import plots
from tarrafa.report.report_store import ReportStore
from tests.server.console.example_console import ADMIN
from tests.server.console.test_redaction import a_collection

AT, PAGE = "/api/v1/collections/twice", "/console/c/twice/report"


def test_the_last_of_several_runs_is_offered_first_and_a_report_says_which_run_it_is_of(furnished, monkeypatch):
    threads: list[threading.Thread] = []
    begin = ReportStore.start_report

    def begun(self: ReportStore, *arguments: Any) -> threading.Thread:
        threads.append(begin(self, *arguments))
        return threads[-1]

    monkeypatch.setattr(ReportStore, "start_report", begun)
    monkeypatch.setattr(plots, "can_draw", lambda: False)  # they take seconds
    with a_collection(furnished, "twice", start=True, schedule={"every": "7 days"}) as program:
        furnished.wait_for("twice", "finished")
        admin = furnished.signed_in(ADMIN)
        assert 'name="run"' not in admin.get(PAGE).text, "there is one"
        visits = program.get(AT).json["collection"]["status"]["visits"]
        assert program.send("POST", f"{AT}/actions", {"action": "again"}).code == 200
        furnished.wait_for_visits("twice", 2 * visits)
        page = admin.get(PAGE).text
        assert '<option value="">all runs together</option><option value="2" selected>Run 2 (' in page
        assert admin.form(PAGE, {"csrf": furnished.csrf(admin), "run": "1", "earlier": ""}).code == 303
        threads[0].join(60)
        found = program.get(f"{AT}/report").json
        assert (found["run"], found["work"]["visits"]) == (1, visits)
        (moment,) = program.get(f"{AT}/reports").json["moments"]
        assert f'<option value="{moment}">{moment} · Run 1</option>' in admin.get(PAGE).text
        assert program.send("POST", f"{AT}/reports", {"run": 0}).code == 400
