"""Command `verify`: checks a data directory, says what is wrong, where and how bad, and mends it with --repair."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from tarrafa.cli.options import DEFAULT_DATA, Data, FrontierAddress, Json, TokenFile, existing_data
from tarrafa.cli.output import ProgressBar, console, print_json
from tarrafa.crawl.verify.findings import KINDS, SEVERITY_TEXTS, Severity, VerifyReport
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import from_command_line
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import counted, print_note

EXIT_FINDINGS = 1


def verify(
    data: Data = DEFAULT_DATA,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Read every record, check its digests, and compare all stores page by page."),
    ] = False,
    is_repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended (reads deep); stop the crawl first.")
    ] = False,
    replica: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="With --repair: a copy of the archive, for damaged bytes."),
    ] = None,
    where: FrontierAddress = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Check all data for damage, and repair it.

    Archive, frontier, graph, captures, index and triple store, each by itself and against each other. Without --repair
    it only reads, and may run beside a crawl. Exit status 1: something is wrong.

    --repair deletes nothing: damaged bytes are kept in DATA/quarantine. If killed, run it again.
    """
    directory = existing_data(data)
    if replica is not None and not is_repair:
        raise ConfigError("--from: only with --repair")
    if where and (is_repair or not deep):
        raise ConfigError("--frontier: with --deep, and without --repair: only this machine's data can be mended here")
    if is_repair:
        report = _repair(directory, replica, as_json=as_json)
    else:
        from tarrafa.crawl.verify.verification import Verification

        address = from_command_line(where, token_file)
        with Verification(directory, deep=deep, progress=ProgressBar, frontier=address) as verification:
            report = verification.run()
        if as_json:
            print_json(_with_totals(report))
    if not as_json:
        print_report(report)
    if report.total:
        raise typer.Exit(EXIT_FINDINGS)


def _repair(data: DataDirectory, replica: Path | None, *, as_json: bool) -> VerifyReport:
    """Repair, and print what is done; the verification afterwards."""
    from tarrafa.crawl.verify.repair import repair

    result = repair(data, replica, ProgressBar, (lambda line: None) if as_json else print_note)
    if as_json:
        print_json({"done": result.done, "left": result.left, "report": _with_totals(result.report)})
    return result.report


def _with_totals(report: VerifyReport) -> dict[str, object]:
    """The report with what each kind of finding means."""
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    findings = [
        {name: getattr(one, name) for name in one.__struct_fields__}
        | {"severity": one.severity, "meaning": KINDS[one.kind].text, "remedy": one.remedy}
        for one in report.findings
    ]
    return {"total": report.total, **{one.value: report.of(one) for one in Severity}} | fields | {"findings": findings}


def print_report(report: VerifyReport) -> None:
    """Print the findings, the worst first, and what was read."""
    for severity in Severity:
        for one in (one for one in report.counts if one.severity == severity):
            kind, shown = KINDS[one.kind], [f for f in report.findings if (f.store, f.kind) == (one.store, one.kind)]
            title = f"{one.store}: {kind.text} ({one.kind}, {SEVERITY_TEXTS[severity]}): {one.count:,}"
            console.print(escape(title), style="red" if severity == Severity.LOST else "yellow")
            for finding in shown:
                console.print(f"  {escape(': '.join(part for part in (finding.place, finding.detail) if part))}")
            if one.count > len(shown):
                console.print(f"  and {one.count - len(shown):,} more")
            console.print(f"  mended by: {escape(shown[0].remedy)}")
    for note in report.notes:
        console.print(escape(note))
    if report.known_losses:
        console.print(f"{counted(report.known_losses, 'visit')} known to be lost: DATA/quarantine/losses.jsonl")
    read = f"{counted(report.records, 'record')}, {counted(report.bytes, 'byte')}"
    how = "read and compared" if report.deep else "stepped over; --deep reads them"
    found = counted(report.total, "finding") if report.total else "nothing wrong"
    console.print(f"{found}: {read} {how}, {report.took_s:.0f} s")
