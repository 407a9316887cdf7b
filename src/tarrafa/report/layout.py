"""The layout of a report in one language: sections with sentences, tables and plot names.

Pure: from a `Report`, in one language, to a `Story`: sections with sentences, tables of texts, and the names of
figures. HTML and Markdown are two ways of writing the same story. Everything in it is plain text.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tarrafa.report.report_texts import Texts
from tarrafa.report.schema import (
    CollectionReport,
    Distribution,
    ListDifference,
    MachineUsage,
    MissingNode,
    NamedCount,
    ReportComparison,
)

ROWS_SHOWN, TYPES_SHOWN, CYCLES_SHOWN, MISSING_SHOWN = 15, 10, 40, 20
URL_CHARS_MAX = 160


@dataclass(frozen=True, slots=True)
class ReportTable:
    """`figures`: which columns are numbers; the first column names its row."""

    caption: str
    columns: Sequence[str]
    rows: list[Sequence[str]]
    figures: Sequence[bool]


@dataclass(frozen=True, slots=True)
class ReportSection:
    name: str
    title: str
    says: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    plots: Sequence[str] = ()  # names of figures that belong here, where they were drawn


@dataclass(frozen=True, slots=True)
class ReportLayout:
    title: str
    subtitle: str
    says: list[str]
    sections: list[ReportSection]


def lay_out(report: CollectionReport, t: Texts) -> ReportLayout:
    made = t("made", when=t.moment(report.made_at), version=report.version)
    period = [t("period", since=_moment(report.since, t), until=_moment(report.until, t))]
    state = [t("state", state=t(f"state_{report.state}") if f"state_{report.state}" in t.words else report.state)]
    says = [made, *(state if report.state else []), *(period if (report.since, report.until) != (None, None) else [])]
    says += _notes(report, t)
    sections = [
        _work(report, t), _machines(report, t), _links(report, t), _responses(report, t), _types(report, t),
        _servers(report, t), _documents(report, t), _named(report, t), _software(report, t), _robots(report, t),
        _dead(report, t), _redirects(report, t), _time(report, t), _waits(report, t), _linked(report, t),
        *([_breadth(report, t)] if report.cycles else []), _storage(report, t),
        *([_search(report, t)] if report.search else []), *([_freshness(report, t)] if report.freshness else []),
        *([_compared(report.comparison, t)] if report.comparison is not None else []),
    ]  # fmt: skip
    if report.run is not None:
        says.insert(1, t("run", run=str(report.run)))
    return ReportLayout(t("title", name=report.collection), t("subtitle"), says, sections)


def _notes(report: CollectionReport, t: Texts) -> list[str]:
    said = []
    for name in report.notes:
        if name == "without":
            said += [missing_node_sentence(one, t) for one in report.missing[:MISSING_SHOWN]]
            more = len(report.missing) - MISSING_SHOWN
            said += [t("note_without_more", count=t.number(more))] if more > 0 else []
        elif f"note_{name}" in t.words:
            said.append(
                t(f"note_{name}", others=t.number(report.shared_with), visits=t.number(report.visits_elsewhere),
                  machines=t.number(len(report.storage_by_machine)))
            )  # fmt: skip
    return said


def missing_node_sentence(missing: MissingNode, t: Texts) -> str:
    """Who is not counted, and why."""
    why = f"why_{missing.why}"
    return t(
        "note_without", node=shorten_text(missing.name), why=t(why) if why in t.words else shorten_text(missing.why)
    )


def _moment(at: float | None, t: Texts) -> str:
    return "…" if at is None else t.moment(at)


def shorten_text(text: str, chars_max: int = URL_CHARS_MAX) -> str:
    """On one line, of bounded length, without signs that nobody sees."""
    line = "".join(sign if sign.isprintable() else "�" for sign in text)
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def display_server(key: str) -> str:
    """Without the port that goes without saying."""
    for scheme, port in (("http://", ":80"), ("https://", ":443")):
        if key.startswith(scheme) and key.endswith(port):
            return shorten_text(key.removesuffix(port))
    return shorten_text(key)


def _pairs(caption: str, rows: Iterable[tuple[str, str]], t: Texts) -> ReportTable:
    return ReportTable(caption, (t("figure"), t("value")), list(rows), (False, True))


def _ranked(
    caption: str, name: str, counts: Sequence[NamedCount], t: Texts, *, shown: int = ROWS_SHOWN, servers: bool = False
) -> ReportTable:
    """The first rows, and the rest as one."""
    what = t("servers") if servers else t("documents")
    with_servers = any(one.servers for one in counts)
    rows: list[Sequence[str]] = []
    for one in counts[:shown]:
        row = [shorten_text(one.name) or t("none"), t.number(one.count), t.percent(one.share)]
        rows.append([*row, t.number(one.servers)] if with_servers else row)
    rest = counts[shown:]
    if rest:
        row = [t("others", count=t.number(len(rest))), t.number(sum(one.count for one in rest)),
               t.percent(sum(one.share for one in rest))]  # fmt: skip
        rows.append([*row, ""] if with_servers else row)
    columns = [name, what, t("share"), *([t("servers")] if with_servers else [])]
    return ReportTable(caption, columns, rows, (False, *[True] * (len(columns) - 1)))


def _work(report: CollectionReport, t: Texts) -> ReportSection:
    work = report.work
    rows = [
        (t("began"), t.moment(work.first) if work.visits else "–"),
        (t("ended"), t.moment(work.last) if work.visits else "–"),
        (t("duration"), t.span(work.duration_s)), (t("active"), t.span(work.active_s)),
        (t("requests"), t.number(work.requests)), (t("documents"), t.number(work.documents)),
        (t("received"), t.size(work.bytes)), (t("mean_size"), t.size(work.mean_bytes)),
        (t("documents_per_s"), t.precise(work.documents_per_s)), (t("kbit_per_s"), t.precise(work.kbit_per_s)),
        (t("first_12_h"), t.percent(work.first_12_h)),
    ]  # fmt: skip
    tables = [_pairs(t("work"), rows, t)]
    if work.pauses:
        pauses = [
            (t.moment(one.since), t.moment(one.until), t.span(one.until - one.since)) for one in work.pauses_longest
        ]
        caption = t("pauses", count=t.number(work.pauses))
        tables.append(ReportTable(caption, (t("began"), t("ended"), t("duration")), list(pauses), (False, False, True)))
    return ReportSection("work", t("work"), [t("work_says")], tables)


def _machines(report: CollectionReport, t: Texts) -> ReportSection:
    def row(used: MachineUsage) -> Sequence[str]:
        machine = used.machine
        busy = "–" if used.busy is None else t.percent(used.busy, 0)
        most = "" if used.busy_most is None else t("at_most", most=t.percent(used.busy_most, 0))
        return (
            shorten_text(used.name) or t("this_machine"),
            shorten_text(machine.model) or t("none"),
            t.number(machine.cpus),
            t.number(machine.cpu_mhz),
            t.size(machine.memory_bytes),
            f"{busy}{most}",
        )

    columns = (t("machine"), t("processor"), t("cores"), "MHz", t("memory"), t("busy"))
    table = ReportTable(
        t("machines"), columns, [row(one) for one in report.machines], (False, False, True, True, True, True)
    )
    return ReportSection("machines", t("machines"), [], [table])


def _links(report: CollectionReport, t: Texts) -> ReportSection:
    links = report.links
    figures = (
        ("mentioned", links.mentioned), ("discovered", links.discovered), ("accessed", links.accessed),
        ("kept", links.kept), ("indexed", links.indexed), ("pending", links.pending), ("failed", links.failed),
        ("excluded", links.excluded), ("too_deep", links.too_deep), ("passed_over", links.passed_over or None),
    )  # fmt: skip
    rows = [(t(f"links_{name}"), t.number(value)) for name, value in figures if value is not None]
    if report.statements is not None:
        rows.append((t("statements"), t.number(report.statements)))
    return ReportSection("links", t("links"), [t("links_says")], [_pairs(t("links"), rows, t)])


def _responses(report: CollectionReport, t: Texts) -> ReportSection:
    columns = (t("status"), t("meaning"), t("visits"), t("share"))
    rows = [
        (str(one.status), t.status(one.status), t.number(one.count), t.percent(one.share, 2))
        for one in report.responses
    ]
    tables = [ReportTable(t("responses"), columns, list(rows), (False, False, True, True))]
    if report.unvisited:
        more = [(str(one.status), t.status(one.status), t.number(one.count)) for one in report.unvisited]
        tables.append(
            ReportTable(t("unvisited"), (t("status"), t("meaning"), t("urls")), list(more), (False, False, True))
        )
    return ReportSection("responses", t("responses"), [t("responses_says")], tables, ("statuses",))


def _types(report: CollectionReport, t: Texts) -> ReportSection:
    said = t("types_says", count=t.number(report.types_distinct))
    table = _ranked(t("types"), t("type"), report.types, t, shown=TYPES_SHOWN)
    columns = (table.columns[0], t("answers"), *table.columns[2:])
    return ReportSection("types", t("types"), [said], [ReportTable(table.caption, columns, table.rows, table.figures)])


def _servers(report: CollectionReport, t: Texts) -> ReportSection:
    servers = report.servers
    says = [
        t("servers_says", visited=t.number(servers.visited), servers=t.number(servers.with_documents),
          sites=t.number(servers.sites)),
        t("holding", share=t.percent(servers.holding_80), count=t.number(servers.holding_80_servers)),
    ]  # fmt: skip
    rows = [
        (display_server(one.host), t.number(one.documents), t.percent(one.share), t.size(one.bytes))
        for one in servers.most
    ]
    columns = (t("server"), t("documents"), t("share"), t("received"))
    caption = t("servers_most", count=t.number(len(rows)))
    return ReportSection(
        "servers",
        t("servers"),
        says,
        [ReportTable(caption, columns, list(rows), (False, True, True, True))],
        ("servers",),
    )


def _spread_rows(found: Distribution, write: Callable[[float], str], t: Texts) -> list[tuple[str, str]]:
    figures = (
        ("mean", found.mean), ("least", found.least), ("p10", found.p10), ("median", found.median),
        ("p90", found.p90), ("p99", found.p99), ("most", found.most),
    )  # fmt: skip
    return [(t(name), write(value)) for name, value in figures] if found.count else []


def _documents(report: CollectionReport, t: Texts) -> ReportSection:
    sizes = _pairs(t("sizes"), _spread_rows(report.sizes, t.size, t), t)
    depths = _ranked(t("depths"), t("depth"), report.depths, t)
    return ReportSection("documents", t("documents_title"), [t("sizes_says")], [sizes, depths], ("sizes", "depths"))


def _named(report: CollectionReport, t: Texts) -> ReportSection:
    def spoken(rows: list[NamedCount]) -> list[NamedCount]:
        return [NamedCount(t.language(one.name), one.count, one.share, one.servers) for one in rows]

    domains = [
        NamedCount(t("address") if one.name == "(address)" else f".{one.name}", one.count, one.share, one.servers)
        for one in report.domains
    ]
    return ReportSection("languages", t("languages_title"), [], [
        _ranked(t("languages"), t("language"), spoken(report.languages), t),
        _ranked(t("domains"), t("domain"), domains, t),
        _ranked(t("charsets"), t("charset"), report.charsets, t),
    ])  # fmt: skip


def _software(report: CollectionReport, t: Texts) -> ReportSection:
    software = report.software
    says = [t("software_says", told=t.number(software.told), silent=t.number(software.silent))]
    tables = [
        _ranked(t("products"), t("product"), software.products, t, servers=True),
        _ranked(t("versions"), t("product"), software.versions, t, servers=True),
    ]
    return ReportSection("software", t("software"), says, tables if software.told else [])


def _robots(report: CollectionReport, t: Texts) -> ReportSection:
    robots = report.robots
    names = ("asked", "present", "absent", "unreachable", "with_rules", "closed", "with_delay", "with_sitemaps",
             "urls_excluded")  # fmt: skip
    rows = [(t(f"robots_{name}"), t.number(getattr(robots, name))) for name in names]
    if robots.with_delay:
        rows.append((t("robots_delay"), f"{t.span(robots.delay_s_mean)}; {t.span(robots.delay_s_most)}"))
    return ReportSection("robots", t("robots"), [], [_pairs(t("robots"), rows, t)])


def _dead(report: CollectionReport, t: Texts) -> ReportSection:
    dead = report.dead
    if dead is None:
        return ReportSection("dead", t("dead"), [t("note_no_graph")])
    says = [t("dead_says", urls=t.number(dead.urls), links=t.number(dead.links), share=t.percent(dead.share, 2))]
    wanted = [(shorten_text(one.url), str(one.status), t.number(one.links)) for one in dead.most_wanted]
    worst = [(shorten_text(one.url), t.number(one.links)) for one in dead.pages_worst]
    tables = [
        ReportTable(t("dead_wanted"), ("URL", t("status"), t("links_to")), list(wanted), (False, True, True)),
        ReportTable(t("dead_worst"), ("URL", t("dead")), list(worst), (False, True)),
    ]
    return ReportSection("dead", t("dead"), says, [table for table in tables if table.rows])


def _redirects(report: CollectionReport, t: Texts) -> ReportSection:
    found = report.redirects
    says = [
        t("redirects_says", urls=t.number(found.urls), loops=t.number(found.loops), within=t.number(found.loop_urls),
          exceeded=t.number(found.exceeded))
    ]  # fmt: skip
    codes = [
        (str(one.status), t("refresh") if one.status == 200 else t.status(one.status), t.number(one.count),
         t.percent(one.share)) for one in found.codes
    ]  # fmt: skip
    chains = [(t.number(one.low), t.number(one.count)) for one in found.chains]
    ends = [(t(f"end_{one.name}"), t.number(one.count), t.percent(one.share)) for one in found.ends]
    tables = [
        ReportTable(
            t("codes"), (t("status"), t("meaning"), "URLs", t("share")), list(codes), (False, False, True, True)
        ),
        ReportTable(t("chains"), (t("length"), t("chains_count")), list(chains), (False, True)),
        ReportTable(t("ends"), (t("end"), t("chains_count"), t("share")), list(ends), (False, True, True)),
    ]
    return ReportSection("redirects", t("redirects"), says, [table for table in tables if table.rows])


def _time(report: CollectionReport, t: Texts) -> ReportSection:
    rows = [
        (shorten_text(one.name) or t("none"), t.number(one.requests), t.number(one.documents), t.moment(one.first),
         t.moment(one.last)) for one in report.collectors
    ]  # fmt: skip
    columns = (t("collector"), t("requests"), t("documents"), t("began"), t("ended"))
    table = ReportTable(t("collectors"), columns, list(rows), (False, True, True, False, False))
    return ReportSection("time", t("time"), [t("time_says")], [table], ("documents", "growth"))


def _waits(report: CollectionReport, t: Texts) -> ReportSection:
    rows = [
        (name, waited, answered)
        for (name, waited), (_, answered) in zip(
            _spread_rows(report.waits, t.span, t), _spread_rows(report.answers, t.span, t), strict=False
        )
    ]
    table = ReportTable(t("waits"), (t("figure"), t("wait"), t("answer")), list(rows), (False, True, True))
    return ReportSection("waits", t("waits"), [t("waits_says")], [table] if rows else [], ("waits",))


def _linked(report: CollectionReport, t: Texts) -> ReportSection:
    internal, outgoing = report.internal_links, report.outgoing_links
    write = t.precise
    rows = [
        (name, inside, out)
        for (name, inside), (_, out) in zip(
            _spread_rows(internal, write, t), _spread_rows(outgoing, write, t), strict=False
        )
    ]
    table = ReportTable(t("linked"), (t("figure"), t("internal"), t("outgoing")), list(rows), (False, True, True))
    return ReportSection("linked", t("linked"), [t("linked_says")], [table] if rows else [], ("internal", "degrees"))


def _breadth(report: CollectionReport, t: Texts) -> ReportSection:
    rows = [
        (t.number(one.number), t.number(one.sites), t.number(one.pages), t.number(one.passed), t.number(one.failed))
        for one in report.cycles[:CYCLES_SHOWN]
    ]
    columns = (t("cycle"), t("sites"), t("pages"), t("passed"), t("fell"))
    table = ReportTable(t("breadth"), columns, list(rows), (False, True, True, True, True))
    return ReportSection("breadth", t("breadth"), [t("breadth_says")], [table], ("breadth",))


def _storage(report: CollectionReport, t: Texts) -> ReportSection:
    total = sum(part.bytes for part in report.storage) or 1
    rows = [
        (t(f"part_{part.name}"), t(f"kind_{part.kind}"), t.size(part.bytes), t.percent(part.bytes / total))
        for part in report.storage
    ]
    for kind in ("data", "index"):
        size = sum(part.bytes for part in report.storage if part.kind == kind)
        rows.append((t(f"sum_{kind}"), "", t.size(size), t.percent(size / total)))
    columns = (t("part"), t("kind"), t("size"), t("share"))
    tables = [ReportTable(t("storage"), columns, list(rows), (False, False, True, True))]
    if report.storage_by_machine:
        tables.append(_storage_by_machine(report, t))
    return ReportSection("storage", t("storage"), [], tables, ("storage",))


def _storage_by_machine(report: CollectionReport, t: Texts) -> ReportTable:
    rows = []
    for one in report.storage_by_machine:
        sizes = [sum(part.bytes for part in one.parts if part.kind == kind) for kind in ("data", "index", "other")]
        rows.append((shorten_text(one.name) or t("this_machine"), *map(t.size, (*sizes, sum(sizes)))))
    columns = (t("machine"), t("kind_data"), t("kind_index"), t("kind_other"), t("together"))
    return ReportTable(t("storage_by_machine"), columns, list(rows), (False, True, True, True, True))


def _search(report: CollectionReport, t: Texts) -> ReportSection:
    rows = [
        (t(f"ask_{one.kind}"), t.number(one.questions), t.span(one.first_s_median), t.span(one.first_s_most),
         t.span(one.again_s_median), t.span(one.again_s_most)) for one in report.search
    ]  # fmt: skip
    columns = (t("questions"), t("count"), t("first_median"), t("first_most"), t("again_median"), t("again_most"))
    table = ReportTable(t("search"), columns, list(rows), (False, True, True, True, True, True))
    return ReportSection("search", t("search"), [t("search_says")], [table])


def _freshness(report: CollectionReport, t: Texts) -> ReportSection:
    found = report.freshness
    assert found is not None
    share = found.visits_changed / max(found.visits - found.pages, 1)
    says = [
        t("fresh_says", pages=t.number(found.pages), fresh=t.percent(found.fresh), visits=t.number(found.visits),
          changed=t.number(found.visits_changed), share=t.percent(share))
    ]  # fmt: skip
    rows = _spread_rows(found.changes_per_day, t.precise, t)
    return ReportSection("freshness", t("freshness"), says, [_pairs(t("changes"), rows, t)], ("changes",))


AS_SIZE, AS_SHARE = (
    frozenset({"bytes", "mean_bytes", "median_bytes", "storage"}),
    frozenset({"holding_80", "dead_links", "fresh"}),
)


def _formatter(name: str, t: Texts) -> Callable[[float], str]:
    if name == "active_s":
        return t.span
    return t.size if name in AS_SIZE else t.percent if name in AS_SHARE else t.precise


def _compared(found: ReportComparison, t: Texts) -> ReportSection:
    rows = []
    for one in found.figures:
        write = _formatter(one.name, t)
        rows.append((t(f"compared_{one.name}"), write(one.before), write(one.now), _change(one.before, one.now, t)))
    tables = [
        ReportTable(
            t("compared"), (t("figure"), t("before"), t("now"), t("change")), list(rows), (False, True, True, True)
        )
    ]
    for one_list in found.lists:
        tables.append(_moves(one_list, t))
    says = [t("compared_says", when=t.moment(found.made_at), first=t.moment(found.first), last=t.moment(found.last))]
    return ReportSection("compared", t("compared"), says, [table for table in tables if table.rows])


def _moves(found: ListDifference, t: Texts) -> ReportTable:
    named = display_server if found.name == "servers" else shorten_text
    rows = [
        (
            t(what),
            named(one.name) or t("none"),
            t.number(one.before),
            t.number(one.now),
            _change(one.before, one.now, t),
        )
        for what, rows in (("appeared", found.appeared), ("vanished", found.vanished), ("moved", found.moved))
        for one in rows
    ]
    caption = t("moves", table=t(f"table_{found.name}"), appeared=t.number(found.appeared_total),
                vanished=t.number(found.vanished_total))  # fmt: skip
    return ReportTable(
        caption, ("", t("name"), t("before"), t("now"), t("change")), list(rows), (False, False, True, True, True)
    )


def _change(before: float, now: float, t: Texts) -> str:
    if not before:
        return "" if not now else t("new")
    change = now / before - 1
    return f"{'+' if change > 0 else ''}{t.percent(change)}"
