"""Compares a report with an earlier one: figures, and rows that appeared, vanished or moved.

Pure: takes two reports of one collection and returns their figures side by side and, of each table, the rows that
appeared, vanished and moved most. Servers are compared as far as both reports name them.
"""

from pathlib import Path

import msgspec

from tarrafa.errors import ConfigError
from tarrafa.report.schema import (
    REPORT_FORMAT,
    CollectionReport,
    FigureDifference,
    ListDifference,
    NamedCount,
    ReportComparison,
)

LISTED = 10
FILE_BYTES_MAX = 64 << 20


class _ReportHeader(msgspec.Struct):
    format: int
    collection: str


def read_report(path: Path) -> CollectionReport:
    """An earlier report.json."""
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: larger than any report ({FILE_BYTES_MAX >> 20} MB at most)")
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        found = msgspec.json.decode(content, type=_ReportHeader)
        if found.format > REPORT_FORMAT:
            raise ConfigError(
                f"{path}: written by a newer Tarrafa (format {found.format}, this one reads {REPORT_FORMAT})"
            )
        return msgspec.json.decode(content, type=CollectionReport)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: no report.json of `tarrafa report` ({error})") from None


def compare_reports(earlier: CollectionReport, now: CollectionReport) -> ReportComparison:
    if earlier.collection != now.collection:
        raise ConfigError(f"the earlier report is of {earlier.collection}, not of {now.collection}")
    before, after = report_figures(earlier), report_figures(now)
    return ReportComparison(
        earlier.made_at,
        earlier.work.first,
        earlier.work.last,
        [FigureDifference(name, before[name], value) for name, value in after.items() if name in before],
        [_compare_lists(name, old, new) for name, old, new in _tables(earlier, now)],
    )


def report_figures(report: CollectionReport) -> dict[str, float]:
    """The figures that are compared; a figure that the report lacks is left out."""
    work, links, servers = report.work, report.links, report.servers
    found: dict[str, float | None] = {
        "documents": work.documents, "requests": work.requests, "bytes": work.bytes, "mean_bytes": work.mean_bytes,
        "median_bytes": report.sizes.median, "active_s": work.active_s, "documents_per_s": work.documents_per_s,
        "kbit_per_s": work.kbit_per_s, "discovered": links.discovered, "accessed": links.accessed,
        "indexed": links.indexed, "servers": servers.with_documents, "sites": servers.sites,
        "holding_80": servers.holding_80, "types": report.types_distinct,
        "internal_links": report.internal_links.mean, "outgoing_links": report.outgoing_links.mean,
        "dead_links": report.dead.share if report.dead is not None else None, "redirects": report.redirects.urls,
        "robots": report.robots.present, "storage": sum(part.bytes for part in report.storage) or None,
        "fresh": report.freshness.fresh if report.freshness is not None else None,
    }  # fmt: skip
    return {name: float(value) for name, value in found.items() if value is not None}


def _tables(earlier: CollectionReport, now: CollectionReport) -> list[tuple[str, dict[str, int], dict[str, int]]]:
    def statuses(report: CollectionReport) -> dict[str, int]:
        return {str(one.status): one.count for one in report.responses}

    return [
        ("servers", earlier.servers.documents, now.servers.documents),
        ("responses", statuses(earlier), statuses(now)),
        ("types", _plain(earlier.types), _plain(now.types)),
        ("languages", _plain(earlier.languages), _plain(now.languages)),
        ("domains", _plain(earlier.domains), _plain(now.domains)),
        ("charsets", _plain(earlier.charsets), _plain(now.charsets)),
        ("software", _plain(earlier.software.products), _plain(now.software.products)),
    ]


def _plain(rows: list[NamedCount]) -> dict[str, int]:
    return {row.name: row.count for row in rows}


def _compare_lists(name: str, before: dict[str, int], now: dict[str, int]) -> ListDifference:
    appeared = [FigureDifference(key, 0, count) for key, count in now.items() if key not in before]
    vanished = [FigureDifference(key, count, 0) for key, count in before.items() if key not in now]
    moved = [FigureDifference(key, before[key], now[key]) for key in before if now.get(key, before[key]) != before[key]]
    return ListDifference(
        name, _most(appeared), _most(vanished), _most(moved), len(appeared), len(vanished)
    )  # fmt: skip


def _most(rows: list[FigureDifference]) -> list[FigureDifference]:
    return sorted(rows, key=lambda row: (-abs(row.now - row.before), row.name))[:LISTED]
