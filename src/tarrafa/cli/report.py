"""Command `tarrafa report`: writes the report of a collection as HTML, Markdown, JSON and plots."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Language, TokenFile
from tarrafa.cli.output import StepProgress, print_document
from tarrafa.clock import Clock
from tarrafa.coordinator.monitoring import utilization
from tarrafa.coordinator.node.search_peers import read_recorded_nodes
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import from_command_line
from tarrafa.i18n import LANGUAGES, translator
from tarrafa.report import comparison, plots, writers
from tarrafa.report.distributed.part_requests import RemoteNodes, ReportNode, find_participants
from tarrafa.report.layout import missing_node_sentence
from tarrafa.report.report_builder import build_report
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted, print_line, print_note
from tarrafa.runtime.token import load_token

MOMENT_FORMS = "2026-11-16, 2026-11-16T14:00 or 2026-11-16T14:00+00:00"


def report(
    name: Annotated[str, typer.Argument(help="Collection.")],
    data: Data = DEFAULT_DATA,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Directory to write. Default: NAME-report.")
    ] = None,
    forms: Annotated[
        str, typer.Option("--format", metavar="LIST", help="Formats, separated by commas.")
    ] = "html,md,json,plots",
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="EARLIER.json", help="Earlier report.json to compare with.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only visits since TIME (UTC).")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only visits before TIME (UTC).")] = None,
    run: Annotated[int | None, typer.Option(min=1, metavar="K", help="Only the K-th run of the collection.")] = None,
    language: Language = "en",
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json; write no files.")] = False,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
) -> None:
    """Write the report of a collection: tables and plots.

    It describes the crawled Web: documents, servers, links, languages, errors. Formats: HTML, Markdown, JSON, and plots
    as PNG and SVG (plots need matplotlib). The crawl may run meanwhile.
    """
    if language not in LANGUAGES:
        raise ConfigError(f"--language: {language!r} is none of {', '.join(LANGUAGES)}")
    wanted = [form.strip() for form in forms.split(",") if form.strip()]
    writers.check_formats(wanted)
    earlier = comparison.read_report(compare) if compare is not None else None
    directory = DataDirectory(data)
    known = read_recorded_nodes(directory)
    begin, end = _parse_time(since, "--since"), _parse_time(until, "--until")
    meanwhile = utilization.read_usage_during_runs(directory, name, Clock.from_environment().now(), run, begin, end)
    addresses = dict(known.addresses(time.time()))
    machines, others = find_participants(
        (
            ReportNode(node, beat.machine if beat is not None else None, addresses.get(node, ""), node == known.own)
            for node, (beat, _) in known.nodes.items()
        ),
        meanwhile,
    )
    with StepProgress(f"report {name}") as steps:
        found = build_report(
            directory, name, since=begin, until=end, run=run, machines=machines or None, earlier=earlier,
            address=from_command_line(where, token_file), others=RemoteNodes(others, load_token(token_file)),
            progress=steps.show,
        )  # fmt: skip
    if as_json:
        print_document(writers.report_json(found))
        return
    _ = translator(language)
    written = writers.write_report(found, _, out or Path(f"{name}-report"), wanted)
    work = found.work
    for missing in found.missing:
        print_note(missing_node_sentence(missing, _))
    print_line(
        f"{name}: {counted(work.documents, 'document')} of {counted(found.servers.with_documents, 'server')}, "
        f"{counted(work.requests, 'request')}"
    )
    for path in written:
        print_line(f"  {path}")
    if "plots" in wanted and not plots.can_draw():
        print_note(_("There are no plots: matplotlib is not installed (pip install 'tarrafa[plot]')."))


def _parse_time(text: str | None, option: str) -> float | None:
    """A time, in UTC unless it has another offset."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{option}: {text[:40]!r} is not a time such as {MOMENT_FORMS}") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
