"""The layout of a report in one language: sections with sentences, tables of texts and names of plots.

Pure. HTML and Markdown are two ways of writing the same sections. Everything is plain text.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from tarrafa.i18n import Translator, message
from tarrafa.model import collection_state, status_name, unkept_cause_name
from tarrafa.parse.url import authority_of
from tarrafa.report.schema import (
    CollectionReport,
    Distribution,
    ListDifference,
    MachineUsage,
    MissingNode,
    NamedCount,
)

ROWS_SHOWN, TYPES_SHOWN, CYCLES_SHOWN, MISSING_SHOWN = 15, 10, 40, 20
URL_CHARS_MAX = 160
PLOT_TITLES = {
    "documents": message("Pages over time, and each worker's end"),
    "growth": message("Pages and new sites over time"),
    "statuses": message("Visits by status"),
    "servers": message("Pages by host, the largest first"),
    "sizes": message("Pages by size"),
    "depths": message("Pages by depth"),
    "waits": message("Waiting time per page"),
    "internal": message("Pages by internal links"),
    "degrees": message("Pages by their links in and out"),
    "breadth": message("Pages that pass or fail the breadth rule"),
    "storage": message("Storage by part"),
    "changes": message("Pages by changes per day"),
    "calibration": message("Revisits: what estimates expect, and what was found"),
}


@dataclass(frozen=True, slots=True)
class ReportTable:
    """The first column names its row; the columns that are not `text_columns` hold numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Collection[int] = (0,)

    @property
    def figures(self) -> list[bool]:
        return [number not in self.text_columns for number in range(len(self.columns))]


@dataclass(frozen=True, slots=True)
class ReportSection:
    name: str
    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[ReportTable] = field(default_factory=list)
    plots: Sequence[str] = ()  # names of the figures of this section, if they were drawn


@dataclass(frozen=True, slots=True)
class ReportLayout:
    title: str
    subtitle: str
    sentences: list[str]
    sections: list[ReportSection]


def lay_out(report: CollectionReport, _: Translator) -> ReportLayout:
    sentences = [_("Made on {when} by Tarrafa {version}.", when=_.moment(report.made_at), version=report.version)]
    if report.run is not None:
        sentences.append(_("Only run {run} is counted.", run=str(report.run)))
    if report.state:
        sentences.append(_("The collection is {state}.", state=collection_state(report.state)))
    if (report.since, report.until) != (None, None):
        since, until = ("…" if at is None else _.moment(at) for at in (report.since, report.until))
        sentences.append(_("Only visits from {since} to {until} are counted.", since=since, until=until))
    sections = [section(report, _) for section in SECTIONS]
    return ReportLayout(
        _("The Web of {name}", name=report.collection),
        _("What was collected, how, and what it looks like"),
        [*sentences, *_notes(report, _)],
        [section for section in sections if section is not None],
    )


def _notes(report: CollectionReport, _: Translator) -> list[str]:
    notes = {
        "no_frontier": _(
            "The frontier is unreachable: its figures (URLs discovered, waiting, failed; changes) are left out."
        ),
        "no_graph": _("There is no link graph yet: links to pages and dead links are left out."),
        "no_index": _("Nothing is indexed yet: search times are left out."),
        "no_busy": _("The load of the machine is left out: it was not recorded during the crawl."),
        "graph_is_now": _("Links, dead links, storage and what the frontier knows are as of now, not of the period."),
        "shared": _.ngettext(
            "The data directory holds {count} more collection: storage is that of all of them together.",
            "The data directory holds {count} more collections: storage is that of all of them together.",
            report.shared_with,
        ),
        "cut_redirects": _("There are more redirects than are looked at; chains are those of the first million."),
        "elsewhere": _.ngettext(
            "{count} visit that the frontier knows of is in no archive that was read: it is not counted, "
            "and URLs without a visit are left out.",
            "{count} visits that the frontier knows of are in no archive that was read: they are not counted, "
            "and URLs without a visit are left out.",
            report.visits_elsewhere,
        ),
        "several": _(
            "Counted over several machines ({machines}). Each has a link graph and an index of its own: links from a "
            "page on one machine to a page on another are not among links to pages and dead links, and a page that two "
            "machines have indexed counts twice. Search times are those of the machine that this report was made "
            "on.",
            machines=len(report.storage_by_machine),
        ),
    }
    sentences = []
    for name in report.notes:
        if name == "without":
            sentences += [missing_node_sentence(one, _) for one in report.missing[:MISSING_SHOWN]]
            more = len(report.missing) - MISSING_SHOWN
            if more > 0:
                sentences.append(_.ngettext("And without {count} more node.", "And without {count} more nodes.", more))
        elif name in notes:
            sentences.append(notes[name])
    return sentences


def missing_node_sentence(missing: MissingNode, _: Translator) -> str:
    """The node that is not counted, and the reason."""
    reasons = {
        "unasked": _("it has no address for requests (it lacks the role search, is silent, or has not reported yet)"),
        "away": _("it does not answer"),
        "broken": _("its answer cannot be read, or is cut off"),
        "refused": _("it refuses our token, or there is no token (--token-file, TARRAFA_TOKEN)"),
        "trouble": _("it could not count what it holds; its log says why"),
        "version": _("it is another version of Tarrafa"),
    }
    return _(
        "Without node {node}: {why}. What it fetched is not counted.",
        node=shorten_text(missing.name),
        why=reasons.get(missing.why) or shorten_text(missing.why),
    )


def language_label(code: str, _: Translator) -> str:
    name = _.language_name(code)
    return f"{name} ({code})" if name else code or _("(none)")


def shorten_text(text: str, chars_max: int = URL_CHARS_MAX) -> str:
    """A text on one line, of bounded length, without invisible characters."""
    line = "".join(sign if sign.isprintable() else "�" for sign in text)
    return line if len(line) <= chars_max else line[: chars_max - 1] + "…"


def display_server(key: str) -> str:
    """The server without its default port."""
    return shorten_text(f"{key.partition('://')[0]}://{authority_of(f'{key}/')}")


def _pairs(caption: str, rows: Sequence[tuple[str, str]], _: Translator) -> ReportTable:
    return ReportTable(caption, (_("Figure"), _("Value")), rows)


def _ranked(
    caption: str, name: str, counts: Sequence[NamedCount], _: Translator, *, of: str = "", shown: int = ROWS_SHOWN
) -> ReportTable:
    """The first rows, and the rest as one row. `of` names what is counted: documents by default."""
    with_servers = any(one.servers for one in counts)
    rows: list[Sequence[str]] = []
    for one in counts[:shown]:
        row = [shorten_text(one.name) or _("(none)"), _.number(one.count), _.percent(one.share)]
        rows.append([*row, _.number(one.servers)] if with_servers else row)
    rest = counts[shown:]
    if rest:
        others, count, share = len(rest), sum(one.count for one in rest), sum(one.share for one in rest)
        row = [_.ngettext("{count} other", "{count} others", others), _.number(count), _.percent(share)]
        rows.append([*row, ""] if with_servers else row)
    columns = [name, of or _("Pages"), _("Share"), *([_("Hosts")] if with_servers else [])]
    return ReportTable(caption, columns, rows)


def _work(report: CollectionReport, _: Translator) -> ReportSection:
    work = report.work
    rows = [
        (_("Began"), _.moment(work.first) if work.visits else "–"),
        (_("Ended"), _.moment(work.last) if work.visits else "–"),
        (_("Duration"), _.span(work.duration_s)),
        (_("Active time"), _.span(work.active_s)),
        (_("Requests"), _.number(work.requests)),
        (_("Pages"), _.number(work.documents)),
        (_("Bytes received"), _.size(work.bytes)),
        (_("Mean size of a page"), _.size(work.mean_bytes)),
        (_("Pages per second"), _.precise(work.documents_per_s)),
        (_("kbit per second"), _.precise(work.kbit_per_s)),
        (_("Collected in the first 12 hours"), _.percent(work.first_12_h)),
    ]
    tables = [_pairs(_("Duration and yield"), rows, _)]
    if work.pauses:
        pauses = [
            (_.moment(one.since), _.moment(one.until), _.span(one.until - one.since)) for one in work.pauses_longest
        ]
        caption = _.ngettext("{count} pause", "{count} pauses; the longest", work.pauses)
        tables.append(ReportTable(caption, (_("Began"), _("Ended"), _("Duration")), pauses, text_columns=(0, 1)))
    sentence = _(
        "Pages are those that are kept. Active time leaves out pauses: stretches of more than ten "
        "minutes without any visit. Rates are over the active time; sizes are bytes of bodies as they came "
        "over the wire."
    )
    return ReportSection("work", _("Duration and yield"), [sentence], tables)


def _machines(report: CollectionReport, _: Translator) -> ReportSection:
    def row(used: MachineUsage) -> Sequence[str]:
        machine = used.machine
        busy = "–" if used.busy is None else _.percent(used.busy, 0)
        most = "" if used.busy_most is None else _(", at most {most}", most=_.percent(used.busy_most, 0))
        return (
            shorten_text(used.name) or _("this one"),
            shorten_text(machine.model) or _("(none)"),
            _.number(machine.cpus),
            _.number(machine.cpu_mhz),
            _.size(machine.memory_bytes),
            f"{busy}{most}",
        )

    columns = (_("Machine"), _("Processor"), _("Cores"), "MHz", _("Memory"), _("Busy"))
    table = ReportTable(_("Machines"), columns, [row(one) for one in report.machines], text_columns=(0, 1))
    return ReportSection("machines", _("Machines"), [], [table])


def _links(report: CollectionReport, _: Translator) -> ReportSection:
    links = report.links
    figures = (
        (_("URLs in the link graph, in scope or not"), links.mentioned),
        (_("URLs discovered (known to the frontier)"), links.discovered),
        (_("URLs accessed (requested at least once)"), links.accessed),
        (_("Pages kept"), links.kept),
        (_("Pages indexed"), links.indexed),
        (_("Pages not indexed: they say noindex"), links.noindex or None),
        (_("Pages not indexed: taken down"), links.taken_down or None),
        (_("Pages not indexed yet"), links.waiting or None),
        (_("Pages in the index that are no longer kept"), links.no_longer_kept or None),
        (_("Pages with more structured data than is kept of one page"), links.cut or None),
        (_("Pages with more text than is kept of one page"), links.cut_text or None),
        (_("URLs answered or refused, and not kept"), links.dropped),
        (_("URLs in the queue"), links.pending),
        (_("URLs given up after failures"), links.failed),
        (_("URLs excluded by robots.txt"), links.excluded),
        (_("URLs beyond the depth limit"), links.too_deep),
        (_("URLs passed over by the order of discovery"), links.passed_over or None),
        (_("URLs that an earlier run left in the queue"), links.aside or None),
    )
    rows = [(name, _.number(value)) for name, value in figures if value is not None]
    if report.statements is not None:
        rows.append((_("Statements in the triple store (all collections)"), _.number(report.statements)))
    return ReportSection(
        "links",
        _("Links: discovered, accessed, indexed"),
        [_("From the discovery of a URL to its entry in the search index.")],
        [_pairs(_("Links: discovered, accessed, indexed"), rows, _), *_not_kept(report, _)],
    )


def _not_kept(report: CollectionReport, _: Translator) -> list[ReportTable]:
    """Why URLs that were answered, refused, given up or excluded are not kept: the sum of these figures."""
    rows = [
        (_.render(unkept_cause_name(one.name)), _.number(one.count), _.percent(one.share, 2)) for one in report.not_kept
    ]
    columns = (_("Cause"), _("URLs"), _("Share"))
    return [ReportTable(_("Why URLs are not kept"), columns, rows, text_columns=(0,))] if rows else []


def _responses(report: CollectionReport, _: Translator) -> ReportSection:
    columns = (_("Status code"), _("Meaning"), _("Visits"), _("Share"))
    rows = [
        (str(one.status), _.render(status_name(one.status)), _.number(one.count), _.percent(one.share, 2))
        for one in report.responses
    ]
    tables = [ReportTable(_("Responses by status"), columns, rows, text_columns=(0, 1))]
    if report.unvisited:
        more = [(str(one.status), _.render(status_name(one.status)), _.number(one.count)) for one in report.unvisited]
        tables.append(
            ReportTable(
                _("Refused without a visit"),
                (_("Status code"), _("Meaning"), _("URLs")),
                more,
                text_columns=(0, 1),
            )
        )
    return ReportSection(
        "responses",
        _("Responses by status"),
        [_("Every visit, once for each time it was made. Positive codes are HTTP's own, negative ones Tarrafa's.")],
        tables,
        ("statuses",),
    )


def _types(report: CollectionReport, _: Translator) -> ReportSection:
    sentence = _(
        "Different types: {count}, over all answers, errors included. The ten most frequent:",
        count=report.types_distinct,
    )
    table = _ranked(_("MIME types"), _("Type"), report.types, _, of=_("Answers"), shown=TYPES_SHOWN)
    return ReportSection("types", _("MIME types"), [sentence], [table])


def _servers(report: CollectionReport, _: Translator) -> ReportSection:
    servers = report.servers
    sentences = [
        _(
            "Hosts visited: {visited}; hosts that hold pages: {servers}; their sites: {sites}.",
            visited=servers.visited,
            servers=servers.with_documents,
            sites=servers.sites,
        ),
        _(
            "{most} of the pages are on {share} of the hosts that hold any ({count}).",
            most=_.percent(0.8, 0),
            share=_.percent(servers.holding_80),
            count=servers.holding_80_servers,
        ),
    ]
    rows = [
        (display_server(one.host), _.number(one.documents), _.percent(one.share), _.size(one.bytes))
        for one in servers.most
    ]
    columns = (_("Host"), _("Pages"), _("Share"), _("Bytes received"))
    caption = _("Hosts with most pages")
    return ReportSection("servers", _("Hosts"), sentences, [ReportTable(caption, columns, rows)], ("servers",))


def _spread_rows(found: Distribution, write: Callable[[float], str], _: Translator) -> list[tuple[str, str]]:
    figures = (
        (_("Mean"), found.mean),
        (_("Least"), found.least),
        (_("{share} are at or below", share=_.percent(0.1, 0)), found.p10),
        (_("Median"), found.median),
        (_("{share} are at or below", share=_.percent(0.9, 0)), found.p90),
        (_("{share} are at or below", share=_.percent(0.99, 0)), found.p99),
        (_("Most"), found.most),
    )
    return [(name, write(value)) for name, value in figures] if found.count else []


def _two_distributions(
    one: Distribution, other: Distribution, write: Callable[[float], str], _: Translator
) -> list[Sequence[str]]:
    """The rows of two distributions side by side."""
    pairs = zip(_spread_rows(one, write, _), _spread_rows(other, write, _), strict=False)
    return [(name, left, right) for (name, left), (_name, right) in pairs]


def _documents(report: CollectionReport, _: Translator) -> ReportSection:
    sizes = _pairs(_("Size of pages"), _spread_rows(report.sizes, _.size, _), _)
    depths = _ranked(_("Pages by depth"), _("Depth"), report.depths, _)
    sentence = _(
        "Sizes are those of bodies as they came over the wire, compressed where the server did so. Depth "
        "counts hops from a root."
    )
    return ReportSection("documents", _("Sizes and depth"), [sentence], [sizes, depths], ("sizes", "depths"))


def _named(report: CollectionReport, _: Translator) -> ReportSection:
    languages = [replace(one, name=language_label(one.name, _)) for one in report.languages]

    def domain_label(name: str) -> str:
        return _("(an address, no name)") if name == "(address)" else f".{name}"

    domains = [replace(one, name=domain_label(one.name)) for one in report.domains]
    return ReportSection("languages", _("Languages, domains, charsets"), [], [
        _ranked(_("Pages by language"), _("Language"), languages, _),
        _ranked(_("Pages by domain"), _("Domain"), domains, _),
        _ranked(_("Pages by charset"), _("Charset"), report.charsets, _),
    ])  # fmt: skip


def _software(report: CollectionReport, _: Translator) -> ReportSection:
    software = report.software
    sentence = _(
        "Hosts that name their software in the Server header: {told}; hosts that do not, or were visited before it "
        "was recorded: {silent}.",
        told=software.told,
        silent=software.silent,
    )
    tables = [
        _ranked(_("By product"), _("Software"), software.products, _, of=_("Hosts")),
        _ranked(_("By product and version"), _("Software"), software.versions, _, of=_("Hosts")),
    ]
    return ReportSection("software", _("Server software"), [sentence], tables if software.told else [])


def _robots(report: CollectionReport, _: Translator) -> ReportSection:
    robots = report.robots
    figures = (
        (_("Hosts whose robots.txt was requested"), robots.asked),
        (_("have one"), robots.present),
        (_("have none (404 and the like)"), robots.absent),
        (_("could not be reached"), robots.unreachable),
        (_("forbid us something"), robots.with_rules),
        (_("forbid us everything"), robots.closed),
        (_("request a delay"), robots.with_delay),
        (_("lead to sitemaps"), robots.with_sitemaps),
        (_("URLs not requested for that reason"), robots.urls_excluded),
    )
    rows = [(name, _.number(value)) for name, value in figures]
    if robots.with_delay:
        rows.append(
            (_("Requested delay: mean; longest"), f"{_.span(robots.delay_s_mean)}; {_.span(robots.delay_s_most)}")
        )
    tables = [_pairs(_("Use of robots.txt"), rows, _), *_reserved_uses(report, _)]
    return ReportSection("robots", _("Use of robots.txt"), [], tables)


def _reserved_uses(report: CollectionReport, _: Translator) -> list[ReportTable]:
    """What the publishers of the documents reserve, in robots.txt, header or page."""
    names = {
        "search": _("reserve search"), "ai-input": _("reserve input of AI models (ai-input)"),
        "ai-train": _("reserve training of AI models (ai-train)"), "licence": _("name a licence or policy"),
    }  # fmt: skip
    rows = [
        (names.get(one.name, one.name), _.number(one.count), _.percent(one.share, 2)) for one in report.reserved_uses
    ]
    columns = (_("Usage preferences"), _("Documents"), _("Share"))
    return [ReportTable(_("Usage preferences"), columns, rows, text_columns=(0,))] if rows else []


def _dead(report: CollectionReport, _: Translator) -> ReportSection:
    dead = report.dead
    if dead is None:
        return ReportSection(
            "dead", _("Dead links"), [_("There is no link graph yet: links to pages and dead links are left out.")]
        )
    sentence = _(
        "Links to URLs that are gone (404, 410) or whose host has no address: {links}, {share} of the links to URLs "
        "that were visited. URLs that they lead to: {urls}.",
        urls=dead.urls,
        links=dead.links,
        share=_.percent(dead.share, 2),
    )
    wanted = [(shorten_text(one.url), str(one.status), _.number(one.links)) for one in dead.most_wanted]
    worst = [(shorten_text(one.url), _.number(one.links)) for one in dead.pages_worst]
    tables = [
        ReportTable(_("Dead URLs that most pages link to"), ("URL", _("Status code"), _("Links to it")), wanted),
        ReportTable(_("Pages with most dead links"), ("URL", _("Dead links")), worst),
    ]
    return ReportSection("dead", _("Dead links"), [sentence], [table for table in tables if table.rows])


def _redirects(report: CollectionReport, _: Translator) -> ReportSection:
    found = report.redirects
    sentence = _(
        "URLs that lead elsewhere: {urls}. Loops: {loops}; URLs in loops: {within}. Visits that met a chain that was "
        "too long: {exceeded}.",
        urls=found.urls,
        loops=found.loops,
        within=found.loop_urls,
        exceeded=found.exceeded,
    )
    codes = [
        (
            str(one.status),
            _("redirect by the page itself") if one.status == 200 else _.render(status_name(one.status)),
            _.number(one.count),
            _.percent(one.share),
        )
        for one in found.codes
    ]
    chains = [(_.number(one.low), _.number(one.count)) for one in found.chains]
    end_names = {
        "document": _("a page"),
        "other": _("something else: an error, another type"),
        "unvisited": _("a URL that was not visited"),
        "loop": _("a loop"),
    }
    ends = [(end_names[one.name], _.number(one.count), _.percent(one.share)) for one in found.ends]
    tables = [
        ReportTable(_("By code"), (_("Status code"), _("Meaning"), "URLs", _("Share")), codes, text_columns=(0, 1)),
        ReportTable(_("Chains by length"), (_("Redirects in a row"), _("Chains")), chains),
        ReportTable(_("Where chains end"), (_("End"), _("Chains"), _("Share")), ends),
    ]
    return ReportSection("redirects", _("Redirects"), [sentence], [table for table in tables if table.rows])


def _requisites(report: CollectionReport, _: Translator) -> ReportSection | None:
    found = report.requisites
    if found is None:
        return None
    sentences = [
        _(
            "Pages that need images, styles, scripts or frames: {pages}. Of these complete, with everything that their "
            "sites have of it: {complete}. URLs needed: {known}; archived: {archived} ({size}); redirects: "
            "{redirects}; missing at their sites (404, 410): {gone}; not visited, or left out: {unvisited}.",
            pages=found.pages,
            complete=found.complete,
            known=found.known,
            archived=found.archived,
            size=_.size(found.bytes),
            redirects=found.redirects,
            gone=found.gone,
            unvisited=found.unvisited,
        )
    ]
    if not found.whole:
        sentences.append(_("There are more of them than are looked at: the number of complete pages is too large."))
    reasons = [
        (str(one.status), _.render(status_name(one.status)), _.number(one.count), _.percent(one.share))
        for one in found.lacking
    ]
    hosts = [(display_server(one.name), _.number(one.count), _.percent(one.share)) for one in found.lacking_hosts]
    columns = (_("Status code"), _("Meaning"), "URLs", _("Share"))
    tables = [
        ReportTable(_("What lacks, by reason"), columns, reasons, text_columns=(0, 1)),
        ReportTable(_("What lacks, by host"), (_("Host"), "URLs", _("Share")), hosts),
    ]
    title = _("What pages need to be shown")
    return ReportSection("requisites", title, sentences, [table for table in tables if table.rows])


def _time(report: CollectionReport, _: Translator) -> ReportSection:
    rows = [
        (shorten_text(one.name) or _("(none)"), _.number(one.requests), _.number(one.documents), _.moment(one.first),
         _.moment(one.last)) for one in report.collectors
    ]  # fmt: skip
    columns = (_("Worker"), _("Requests"), _("Pages"), _("Began"), _("Ended"))
    table = ReportTable(_("Workers"), columns, rows, text_columns=(0, 3, 4))
    return ReportSection(
        "time",
        _("Pages over time"),
        [_("A worker is a process that visits; its end is its last visit.")],
        [table],
        ("documents", "growth"),
    )


def _waits(report: CollectionReport, _: Translator) -> ReportSection:
    rows = _two_distributions(report.waits, report.answers, _.span, _)
    table = ReportTable(_("Waiting time per page"), (_("Figure"), _("Wait"), _("Answer")), rows)
    sentence = _(
        "The wait is the time from the end of an answer to the next request to the same host: politeness, "
        "and that other hosts came first. Waits of more than ten minutes are left out. The answer is the time "
        "from a request to its last byte."
    )
    return ReportSection("waits", _("Waiting time per page"), [sentence], [table] if rows else [], ("waits",))


def _linked(report: CollectionReport, _: Translator) -> ReportSection:
    rows = _two_distributions(report.internal_links, report.outgoing_links, _.precise, _)
    table = ReportTable(_("Links per page"), (_("Figure"), _("Internal links"), _("All links")), rows)
    return ReportSection(
        "linked",
        _("Links per page"),
        [_("Different URLs on a page, itself left out. Internal ones are on the same host.")],
        [table] if rows else [],
        ("internal", "degrees"),
    )


def _breadth(report: CollectionReport, _: Translator) -> ReportSection | None:
    if not report.cycles:
        return None
    rows = [
        (_.number(one.number), _.number(one.sites), _.number(one.pages), _.number(one.passed), _.number(one.failed))
        for one in report.cycles[:CYCLES_SHOWN]
    ]
    columns = (_("Cycle"), _("Sites"), _("Pages"), _("Passed the rule"), _("Failed the rule"))
    table = ReportTable(_("The breadth rule, by cycle"), columns, rows)
    sentence = _(
        "The i-th page of a site passes if at least 2^i different links on it lead to other sites: then the "
        "walk through the site goes on. Cycles are counted by the order in which sites were entered."
    )
    return ReportSection("breadth", _("The breadth rule, by cycle"), [sentence], [table], ("breadth",))


def _storage(report: CollectionReport, _: Translator) -> ReportSection:
    total = sum(part.bytes for part in report.storage) or 1
    kinds = {"data": _("data"), "index": _("index"), "other": _("other")}
    rows = [
        (storage_part_name(part.name, _), kinds[part.kind], _.size(part.bytes), _.percent(part.bytes / total))
        for part in report.storage
    ]
    for kind, name in (("data", _("Data together")), ("index", _("Index together"))):
        size = sum(part.bytes for part in report.storage if part.kind == kind)
        rows.append((name, "", _.size(size), _.percent(size / total)))
    columns = (_("Part of the storage"), _("Kind"), _("Size"), _("Share"))
    tables = [ReportTable(_("Storage"), columns, rows, text_columns=(0, 1))]
    if report.storage_by_machine:
        tables.append(_storage_by_machine(report, _))
    return ReportSection("storage", _("Storage"), [], tables, ("storage",))


def storage_part_name(part: str, _: Translator) -> str:
    names = {
        "archive": _("Archive: requests and responses"),
        "metadata": _("Archive: metadata and texts"),
        "frontier": _("Frontier"),
        "index": _("Full-text index"),
        "graph": _("Link graph"),
        "triples": _("Triple store"),
        "captures": _("Index of captures"),
        "other": _("Everything else"),
    }
    return names[part]


def _storage_by_machine(report: CollectionReport, _: Translator) -> ReportTable:
    rows = []
    for one in report.storage_by_machine:
        sizes = [sum(part.bytes for part in one.parts if part.kind == kind) for kind in ("data", "index", "other")]
        rows.append((shorten_text(one.name) or _("this one"), *map(_.size, (*sizes, sum(sizes)))))
    columns = (_("Machine"), _("data"), _("index"), _("other"), _("together"))
    return ReportTable(_("By machine"), columns, rows)


def _search(report: CollectionReport, _: Translator) -> ReportSection | None:
    if not report.search:
        return None
    kinds = {"word": _("one word"), "pair": _("two words"), "phrase": _("a phrase")}
    rows = []
    for one in report.search:
        searched = (one.first_s_median, one.first_s_most, one.again_s_median, one.again_s_most)
        times = ("–" if s is None else _.span(s) for s in (*searched, one.cached_s_median, one.cached_s_most))
        rows.append((kinds[one.kind], _.number(one.questions), *times))
    first, second = (_("First: median"), _("First: slowest")), (_("Second: median"), _("Second: slowest"))
    cached = (_("From the cache: median"), _("From the cache: slowest"))
    table = ReportTable(_("Search times"), (_("Questions"), _("Count"), *first, *second, *cached), rows)
    sentence = _(
        "Questions of the collection's own words, each asked three times in a row, on this machine, when this report "
        "was made. The first two times the index is searched; the third answer comes from the result cache, as on the "
        "search page."
    )
    return ReportSection("search", _("Search times"), [sentence], [table])


def _freshness(report: CollectionReport, _: Translator) -> ReportSection | None:
    found = report.freshness
    if found is None:
        return None
    share = found.visits_changed / max(found.visits - found.pages, 1)
    sentence = _(
        "Pages kept fresh: {pages}; {fresh} of the copies are probably what the page says now. Visits: {visits}; "
        "visits that found a change: {changed}, {share} of the visits after the first.",
        pages=found.pages,
        fresh=_.percent(found.fresh),
        visits=found.visits,
        changed=found.visits_changed,
        share=_.percent(share),
    )
    rows = _spread_rows(found.changes_per_day, _.precise, _)
    tables = [_pairs(_("Changes per day, as estimated for each page"), rows, _)]
    if found.calibration:
        title = (_("Changes per day, from"), _("Revisits"), _("Should find a change"), _("Did"))
        points = [
            (_.precise(one.per_day), _.number(one.visits), _.percent(one.expected), _.percent(one.found))
            for one in found.calibration
        ]
        tables.append(ReportTable(_("Estimates and what revisits found"), title, points))
    return ReportSection(
        "freshness",
        _("Changes and freshness"),
        [sentence],
        tables,
        ("changes", "calibration"),
    )


def _compared_figures(_: Translator) -> dict[str, tuple[str, Callable[[float], str]]]:
    """The name of each compared figure, and how its values are formatted."""
    return {
        "documents": (_("Pages"), _.precise),
        "requests": (_("Requests"), _.precise),
        "bytes": (_("Bytes received"), _.size),
        "mean_bytes": (_("Mean size"), _.size),
        "median_bytes": (_("Median size"), _.size),
        "active_s": (_("Active time"), _.span),
        "documents_per_s": (_("Pages per second"), _.precise),
        "kbit_per_s": (_("kbit per second"), _.precise),
        "discovered": (_("URLs discovered"), _.precise),
        "accessed": (_("URLs accessed"), _.precise),
        "indexed": (_("Pages indexed"), _.precise),
        "servers": (_("Hosts with pages"), _.precise),
        "sites": (_("Sites"), _.precise),
        "holding_80": (_("Hosts that hold 80 %"), _.percent),
        "types": (_("MIME types"), _.precise),
        "internal_links": (_("Internal links per page"), _.precise),
        "outgoing_links": (_("Links per page"), _.precise),
        "dead_links": (_("Dead links"), _.percent),
        "redirects": (_("URLs that redirect"), _.precise),
        "robots": (_("Hosts with robots.txt"), _.precise),
        "storage": (_("Storage"), _.size),
        "fresh": (_("Probably fresh"), _.percent),
    }


def _compared(report: CollectionReport, _: Translator) -> ReportSection | None:
    found = report.comparison
    if found is None:
        return None
    figures, rows = _compared_figures(_), []
    for one in found.figures:
        name, write = figures[one.name]
        rows.append((name, write(one.before), write(one.now), _change(one.before, one.now, _)))
    tables = [ReportTable(_("Compared with an earlier report"), (_("Figure"), _("Then"), _("Now"), _("Change")), rows)]
    tables += [_moves(one, _) for one in found.lists]
    sentence = _(
        "The earlier report was made on {when}, of visits from {first} to {last}.",
        when=_.moment(found.made_at),
        first=_.moment(found.first),
        last=_.moment(found.last),
    )
    return ReportSection(
        "compared", _("Compared with an earlier report"), [sentence], [table for table in tables if table.rows]
    )


def _moves(found: ListDifference, _: Translator) -> ReportTable:
    named = display_server if found.name == "servers" else shorten_text
    rows = [
        (
            what,
            named(one.name) or _("(none)"),
            _.number(one.before),
            _.number(one.now),
            _change(one.before, one.now, _),
        )
        for what, rows in ((_("appeared"), found.appeared), (_("vanished"), found.vanished), (_("moved"), found.moved))
        for one in rows
    ]
    tables = {
        "servers": _("Hosts"),
        "responses": _("Responses"),
        "types": _("MIME types"),
        "languages": _("Languages"),
        "domains": _("Domains"),
        "charsets": _("Charsets"),
        "software": _("Server software"),
    }
    caption = _(
        "{table}: {appeared} appeared, {vanished} vanished",
        table=tables[found.name],
        appeared=found.appeared_total,
        vanished=found.vanished_total,
    )
    return ReportTable(caption, ("", _("Name"), _("Then"), _("Now"), _("Change")), rows, text_columns=(0, 1))


def _change(before: float, now: float, _: Translator) -> str:
    if not before:
        return "" if not now else _("new")
    change = now / before - 1
    return f"{'+' if change > 0 else ''}{_.percent(change)}"


SECTIONS: tuple[Callable[[CollectionReport, Translator], ReportSection | None], ...] = (
    _work, _machines, _links, _responses, _types, _servers, _documents, _named, _software, _robots, _dead, _redirects,
    _requisites, _time, _waits, _linked, _breadth, _storage, _search, _freshness, _compared,
)  # fmt: skip
