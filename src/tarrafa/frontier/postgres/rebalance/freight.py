"""What goes along when hosts move from one database to another?

Every row that hangs below them, as it is, in binary and in bulk: two servers of one frontier have the same tables and
the same collections, so nothing needs to be understood or made again, plans and walks included. What is made anew is
`ready`, and what is counted is counted from the rows, by the same questions where they leave and where they arrive.

Weakness: a site's row goes where the first of its hosts goes. Hosts of one site move together, unless a collection
has fewer suffixes of its own than the first one had.
"""

from collections import Counter
from collections.abc import Mapping

from psycopg import Connection

from tarrafa.frontier.ordering.breadth_rules import SiteStage
from tarrafa.frontier.postgres.working_copy import Cursor, Row, TableSchema
from tarrafa.frontier.store.collections import (
    CHOSEN_WAITING,
    DISMISSED_WAITING,
    HOSTS,
    KNOWN,
    LEFT_OVER,
    OLD_PAGES,
    PASSED_OVER,
    RATES,
    SHOWN_PAGES,
    TABLE_SITES,
    state_bucket,
)
from tarrafa.frontier.store.leases import WITHHELD
from tarrafa.frontier.store.ready_queue import NEW_ROWS
from tarrafa.frontier.store.revisit_queue import CHOSEN_SHELF, DISMISSED_SHELF, RATE_UNIT, read_history
from tarrafa.frontier.store.schema import FAVOURED, NEW, OLD
from tarrafa.model import HostId, UrlState

MINE = -1  # the part of the counters that whoever moves hosts adds to: nobody else waits for it
GIVEN = "unnest(%b::bigint[]) AS part(host)"
BELOW_HOST = ("", "t.host = part.host")
# How to come from a host to what hangs below it: over which tables, and by what. In this order they are taken away.
WAYS = {
    "standing": (
        "JOIN url u ON u.host = part.host",
        "t.collection = u.collection AND t.kept IN (0, 1) AND t.in_links = u.in_links AND t.host = u.host"
        " AND t.id = u.id",
    ),
    "shelf": ("JOIN work w ON w.host = part.host", "t.collection = w.collection AND t.host = w.host"),
    **dict.fromkeys(("url", "visit", "pending", "page", "due", "work"), BELOW_HOST),
    "host": ("", "t.id = part.host"),
}
# What belongs to several hosts: it comes where it is not yet, in a statement of its own.
SHARED_WAYS = {
    "site": (
        "JOIN host h ON h.id = part.host JOIN work w ON w.host = h.id",
        "t.collection = w.collection AND t.name = h.site",
    ),
    "robots": ("JOIN host h ON h.id = part.host", "t.digest = h.robots_digest"),
}
Counts = Mapping[tuple[int, str], int]


def select(cursor: Cursor, hosts: list[HostId]) -> None:
    """The hosts that `carry` is about, for as long as the transaction lasts."""
    cursor.execute("CREATE TEMP TABLE part (host BIGINT PRIMARY KEY) ON COMMIT DROP")
    cursor.execute("INSERT INTO part SELECT * FROM unnest(%b::bigint[])", [hosts])


def carry(source: "Connection[Row]", target: "Connection[Row]", tables: Mapping[str, TableSchema]) -> dict[str, int]:
    """Copy all rows below the selected hosts; how many of each table. Both sides are in a transaction."""
    carried = {name: _pour(source, target, tables[name], name, way) for name, way in reversed(WAYS.items())}
    carried["site"] = carry_shared(source, target, tables["site"])
    return carried


def carry_shared(source: "Connection[Row]", target: "Connection[Row]", table: TableSchema) -> int:
    """What is there already stays."""
    columns = ", ".join(table.columns)
    target.execute(f"CREATE TEMP TABLE arriving (LIKE {table.name}) ON COMMIT DROP".encode())
    _pour(source, target, table, "arriving", SHARED_WAYS[table.name])
    found = target.execute(
        f"INSERT INTO {table.name} ({columns}) SELECT DISTINCT {columns} FROM arriving ON CONFLICT DO NOTHING".encode()
    )
    target.execute("DROP TABLE arriving")
    return found.rowcount


def _pour(
    source: "Connection[Row]", target: "Connection[Row]", table: TableSchema, into: str, way: tuple[str, str]
) -> int:
    if into == "standing" and not _has_standings(source):
        return 0
    taken = ", ".join("NULL::bigint" if (into, one) == ("host", "worker") else f"t.{one}" for one in table.columns)
    question = f"SELECT {taken} FROM part {way[0]} JOIN {table.name} t ON {way[1]}"
    columns = ", ".join(table.columns)
    giving, taking = source.cursor(), target.cursor()
    with (
        giving.copy(f"COPY ({question}) TO STDOUT (FORMAT BINARY)".encode()) as rows,
        taking.copy(f"COPY {into} ({columns}) FROM STDIN (FORMAT BINARY)".encode()) as place,
    ):
        for data in rows:
            place.write(data)
    return taking.rowcount


def _has_standings(connection: "Connection[Row]") -> bool:
    """Else it is not worth looking for every URL."""
    return connection.execute("SELECT 1 FROM standing LIMIT 1").fetchone() is not None


def withhold(cursor: Cursor, hosts: list[HostId]) -> None:
    """Those that are with nobody go to nobody: as `Hosts.withhold`, for many at once."""
    rows = cursor.execute(
        "SELECT id FROM host WHERE id = ANY(%b::bigint[]) AND worker IS NULL ORDER BY id FOR UPDATE", [hosts]
    ).fetchall()
    free = [host for (host,) in rows]
    for kinds, moment in ((f"{NEW}, {FAVOURED}", "h.next_at"), (f"{OLD}", "greatest(h.next_at, w.due)")):
        cursor.execute(
            f"DELETE FROM ready t USING {GIVEN} JOIN host h ON h.id = part.host JOIN work w ON w.host = h.id"
            f" WHERE t.collection = w.collection AND t.kind IN ({kinds}) AND t.next_at = {moment} AND t.host = h.id",
            [free],
        )
    cursor.execute("UPDATE host SET worker = %b::bigint WHERE id = ANY(%b::bigint[])", [WITHHELD, free])


def let_go(cursor: Cursor, hosts: list[HostId]) -> None:
    """They stay after all."""
    rows = cursor.execute(
        "SELECT id FROM host WHERE id = ANY(%b::bigint[]) AND worker = %b::bigint ORDER BY id FOR UPDATE",
        [hosts, WITHHELD],
    ).fetchall()
    held = [host for (host,) in rows]
    cursor.execute("UPDATE host SET worker = NULL WHERE id = ANY(%b::bigint[])", [held])
    make_ready(cursor, held)


def make_ready(cursor: Cursor, hosts: list[HostId]) -> None:
    """They may be visited from now on."""
    cursor.execute(f"INSERT {NEW_ROWS} AND work.host = ANY(%b::bigint[])", [hosts])
    cursor.execute(
        f"INSERT INTO ready SELECT collection, {OLD}, greatest(next_at, due), id FROM work"
        " JOIN host ON host.id = work.host WHERE work.host = ANY(%b::bigint[]) AND worker IS NULL AND due IS NOT NULL",
        [hosts],
    )


# -- what is counted ------------------------------------------------------------------------------------------

OF_WORK = f"FROM {GIVEN} JOIN work t ON t.host = part.host"
OF_SITES = f"{OF_WORK} JOIN host h ON h.id = t.host JOIN site s ON s.collection = t.collection AND s.name = h.site"
OF_PAGES = f"FROM {GIVEN} JOIN page t ON t.host = part.host"
OF_EARLIER = f"FROM {GIVEN} JOIN url t ON t.host = part.host JOIN collection c ON c.id = t.collection AND t.run < c.run"
CENSUS = {
    OLD_PAGES: f"SELECT t.collection, count(*) {OF_EARLIER} WHERE t.state = {UrlState.FETCHED:d} GROUP BY 1",
    LEFT_OVER: f"SELECT t.collection, count(*) {OF_EARLIER} WHERE t.state = {UrlState.PENDING:d} GROUP BY 1",
    SHOWN_PAGES: f"SELECT t.collection, count(*) FROM {GIVEN} JOIN url t ON t.host = part.host WHERE t.shown > 0"
    " GROUP BY 1",
    HOSTS: f"SELECT t.collection, count(*) {OF_WORK} GROUP BY 1",
    CHOSEN_WAITING: f"SELECT t.collection, count(*) FROM {GIVEN} JOIN due t ON t.host = part.host"
    f" WHERE t.shelf = {CHOSEN_SHELF} GROUP BY 1",
    DISMISSED_WAITING: f"SELECT t.collection, count(*) {OF_PAGES} WHERE t.shelf = {DISMISSED_SHELF} GROUP BY 1",
    PASSED_OVER: f"SELECT t.collection, sum(t.pending)::bigint {OF_SITES} WHERE s.stage = {int(SiteStage.OVER)} GROUP BY 1",
    TABLE_SITES: f"SELECT t.collection, count(DISTINCT s.name) {OF_SITES} WHERE s.stage = {int(SiteStage.LISTED)} GROUP BY 1",
}
STATES = f"SELECT t.collection, t.state, count(*) FROM {GIVEN} JOIN url t ON t.host = part.host GROUP BY 1, 2"
HISTORIES = (
    f"SELECT t.collection, t.history {OF_PAGES} JOIN url u ON u.host = t.host AND u.collection = t.collection"
    " AND u.id = t.id WHERE u.role = 0"
)


def census(cursor: Cursor, hosts: list[HostId]) -> Counts:
    """What these hosts add to the counters of what is there."""
    counts: Counter[tuple[int, str]] = Counter()
    for number, state, count in cursor.execute(STATES, [hosts]).fetchall():
        counts[number, state_bucket(state)] += count
        counts[number, KNOWN] += count
    for bucket, question in CENSUS.items():
        for number, count in cursor.execute(question, [hosts]).fetchall():
            counts[number, bucket] += count
    for number, history in cursor.execute(HISTORIES, [hosts]):
        counts[number, RATES] += round(RATE_UNIT * read_history(history).rate)
    return counts


def count(cursor: Cursor, counts: Counts, sign: int) -> None:
    rows = [(number, bucket, sign * value) for (number, bucket), value in sorted(counts.items()) if value]
    if rows:
        cursor.execute(
            "INSERT INTO counter SELECT c, b, %b::bigint, v FROM unnest(%b::bigint[], %b::text[], %b::bigint[])"
            " AS k(c, b, v) ON CONFLICT (collection, bucket, part)"
            " DO UPDATE SET value = counter.value + excluded.value",
            [MINE, *map(list, zip(*rows, strict=True))],
        )


# -- away -----------------------------------------------------------------------------------------------------


def erase(cursor: Cursor, hosts: list[HostId]) -> None:
    """All rows below these hosts, and the hosts. Whoever holds one of them for a moment is waited for."""
    cursor.execute("SELECT id FROM host WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE", [hosts])
    sites = cursor.execute("SELECT DISTINCT site FROM host WHERE id = ANY(%b::bigint[])", [hosts]).fetchall()
    for name, (over, same) in WAYS.items():
        if name != "standing" or _has_standings(cursor.connection):
            cursor.execute(f"DELETE FROM {name} t USING {GIVEN} {over} WHERE {same}", [hosts])
    cursor.execute("UPDATE address SET host = NULL WHERE host = ANY(%b::bigint[])", [hosts])
    cursor.execute(
        "DELETE FROM site USING collection c WHERE site.collection = c.id AND site.name = ANY(%b::text[])"
        " AND NOT EXISTS (SELECT 1 FROM host WHERE host.site = site.name)",
        [[site for (site,) in sites]],
    )
