"""Row locks: the database that the store runs on, a row cache that locks hosts and sites in one order.

A transaction changes rows below a host only while it has locked the host's row in PostgreSQL. In the order of breadth
the hosts of a site share one gate and one queue, so a change of one host concerns the others. The site's row is the
lock of them all: a transaction locks that row before it puts a URL into a queue of the site, takes one out, or moves a
gate.

Promises: the rows of sites are locked before any host, and in order; then the hosts, in order; so no deadlock is
possible. A row that turns out to be needed later is locked if it is free; otherwise the call begins anew (`StaleRow`),
or, if it was about to lease, does without. A transaction that has locked a site sees all its hosts with pending URLs:
no other transaction can add one.

Known weakness: each step of a site session locks all hosts of its site with pending URLs, up to `site_hosts_max` of
them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import apsw

from tarrafa.frontier.ordering import SiteStage
from tarrafa.frontier.postgres.row_cache import Cursor, RowCache, StaleRow
from tarrafa.frontier.store.database import ALL_ROWS, CLOSED, OLD, STATEMENTS_KEPT, TABLES, FrontierDatabase
from tarrafa.frontier.store.leases import NEW_ROWS
from tarrafa.model import HostId

OF_STAGE = "FROM site WHERE collection = %b::bigint AND stage = %b::bigint ORDER BY mentions"
# As in store/breadth_sites.py. Names are compared byte by byte, as in SQLite.
MOST_MENTIONED = f'{OF_STAGE} DESC, best, name COLLATE "C"'
LEAST_MENTIONED = f'{OF_STAGE}, best DESC, name COLLATE "C" DESC'
LIMIT = "LIMIT %b::bigint"

Key = tuple[int, str]  # of a site: collection and name


class LockedDatabase(FrontierDatabase):
    """SQLite in memory with the rows of one transaction, whose hosts and sites are locked in PostgreSQL."""

    is_row_cache = True

    def __init__(self, suffix_list: str) -> None:
        super().__init__(apsw.Connection(":memory:", statementcachesize=STATEMENTS_KEPT))
        self.connection.execute(TABLES)
        self.run("INSERT INTO meta VALUES ('suffix_list', ?)", (suffix_list,))
        self.cache = RowCache(self)
        self._hosts: set[HostId] = set()  # locked
        self._whole_sites: set[Key] = set()  # whose hosts are all locked

    def begin(self, cursor: Cursor) -> None:
        self.cache.begin(cursor)

    def end(self) -> None:
        """Forget all rows, and the locks that end with the transaction."""
        self.cache.end()
        self._hosts.clear()
        self._whole_sites.clear()

    def prefetch(self, table: str, keys: Iterable[Sequence[Any]]) -> None:
        self.cache.prefetch(table, keys)

    def prefetch_first(self, table: str, prefixes: Iterable[Sequence[Any]], count: int, *, last: bool = False) -> None:
        self.cache.prefetch_first(table, prefixes, count, last=last)

    # -- hosts ------------------------------------------------------------------------------------------------

    def lock_hosts(self, hosts: Iterable[HostId], how: str = "FOR UPDATE") -> None:
        """Lock hosts for this transaction, and fetch the small tables below them."""
        wanted = sorted(set(hosts) - self._hosts)
        if not wanted:
            return
        rows = self.cache.fetch("host", f"WHERE id = ANY(%b::bigint[]) ORDER BY id {how}", [wanted], again=True)
        locked = [row[0] for row in rows]
        self._hosts.update(locked)
        self.prefetch_first("work", [(host,) for host in locked], ALL_ROWS)
        self.prefetch_first("handed", [(host,) for host in locked], ALL_ROWS)
        self.cache.fetch("address", "WHERE host = ANY(%b::bigint[]) ORDER BY address FOR UPDATE", [locked])
        self._make_ready(locked)

    def is_locked(self, host: HostId) -> bool:
        return host in self._hosts

    def _make_ready(self, hosts: list[HostId]) -> None:
        """Compute their `ready` rows from their other rows; those fetched before the lock may be outdated."""
        with self.cache.unrecorded():
            self.many("DELETE FROM ready WHERE host = ?", [(host,) for host in hosts])
            self.many(
                f"INSERT {NEW_ROWS} AND work.host = ? UNION ALL"
                f" SELECT collection, {OLD}, max(next_at, due), id FROM work JOIN host ON host.id = work.host"
                " WHERE work.host = ? AND worker IS NULL AND due IS NOT NULL",
                [(host, host) for host in hosts],
            )
        self.cache.keep("ready")

    # -- at the start of a transaction: these wait -------------------------------------------------------------

    def site_names(self, hosts: Iterable[HostId]) -> dict[HostId, str]:
        """The sites of those hosts that are known; a host never changes its site."""
        wanted = sorted(set(hosts))
        if not wanted:
            return {}
        return dict(self.cache.query("SELECT id, site FROM host WHERE id = ANY(%b::bigint[])", [wanted]))

    def create_and_lock_sites(self, collection: int, names: Iterable[str]) -> None:
        """Create and lock these sites, so that two transactions with the same new site wait for each other and never
        collide."""
        wanted = sorted(set(names))
        self.cache.query(
            "INSERT INTO site (collection, name, hosts) SELECT %b::bigint, name, 0 FROM unnest(%b::text[]) AS k(name)"
            " ON CONFLICT DO NOTHING RETURNING 1",
            [collection, wanted],
        )
        self.prefetch("site", [(collection, name) for name in wanted])

    def lock_sites(self, pairs: Iterable[tuple[int, HostId]]) -> set[Key]:
        """Lock the rows of these hosts' sites, in these collections."""
        wanted = list(pairs)
        names = self.site_names(host for _, host in wanted)
        keys = {(collection, names[host]) for collection, host in wanted if host in names}
        self.prefetch("site", keys)
        return keys

    def lock_site_sessions(self, pairs: Iterable[tuple[int, HostId]], hosts: Iterable[HostId]) -> None:
        """Lock the sites, the hosts in their sessions, and the other given hosts."""
        keys = self.lock_sites(pairs)
        hosts_of = self._session_hosts(keys)
        self.lock_hosts({*hosts, *(host for some in hosts_of.values() for host in some)})
        self._whole_sites |= keys

    def _session_hosts(self, keys: Collection[Key]) -> dict[Key, list[HostId]]:
        """The hosts of sites that we have locked: no other transaction can add any."""
        found: defaultdict[Key, list[HostId]] = defaultdict(list)
        if keys:
            rows = self.cache.query(
                "SELECT k.collection, k.name, w.host FROM unnest(%b::bigint[], %b::text[]) AS k(collection, name)"
                " JOIN host h ON h.site = k.name JOIN work w ON w.host = h.id AND w.collection = k.collection"
                " WHERE w.pending > 0 OR w.gate != %b::bigint",
                [[number for number, _ in keys], [name for _, name in keys], CLOSED],
            )
            for number, name, host in rows:
                found[number, name].append(host)
        return found

    # -- later: these never wait ---------------------------------------------------------------------------------

    def acquire_hosts(self, hosts: Sequence[HostId], walks_of: int | None = None) -> Sequence[HostId]:
        self.lock_hosts(hosts, "FOR UPDATE SKIP LOCKED")
        mine = [host for host in hosts if host in self._hosts]
        if walks_of is None or not mine:
            return mine
        names = dict(self.rows(f"SELECT id, site FROM host WHERE id IN ({', '.join('?' * len(mine))})", mine))
        keys = self._try_lock_sites(walks_of, sorted(set(names.values())))
        whole = self._try_lock_sessions(keys)
        return [host for host in mine if (walks_of, names[host]) in whole]

    def acquire_site(self, collection: int, host: HostId) -> None:
        name = self.value("SELECT site FROM host WHERE id = ?", (host,))
        if not self._try_lock_sites(collection, [name]):
            raise StaleRow(f"site: another transaction has {name}")

    def _try_lock_sites(self, collection: int, names: Sequence[str]) -> set[Key]:
        """Lock those that are free; returns their keys."""
        wanted = {(collection, name) for name in names}
        if missing := sorted(name for _, name in wanted - self.cache.fetched("site", wanted)):
            free = "WHERE collection = %b::bigint AND name = ANY(%b::text[]) FOR UPDATE SKIP LOCKED"
            self.cache.fetch("site", free, [collection, missing])
        return self.cache.fetched("site", wanted)

    def acquire_walks(self, collection: int, names: Sequence[str]) -> None:
        keys = {(collection, name) for name in names}
        if len(self._try_lock_sessions(keys)) < len(keys):
            raise StaleRow("host: another transaction has one of a site's")
        hosts = self.rows(
            "SELECT work.host, collection FROM host JOIN work ON work.host = host.id AND collection = ?"
            f" WHERE site IN ({', '.join('?' * len(keys))}) AND pending > 0",
            (collection, *(name for _, name in keys)),
        )
        self.prefetch_first("pending", hosts, 1)

    def _try_lock_sessions(self, keys: Collection[Key]) -> set[Key]:
        """The sites whose hosts we have locked or can lock. A transaction that holds no host yet may wait: it blocks no
        other."""
        missing = set(keys) - self._whole_sites
        hosts_of = self._session_hosts(missing)
        how = "FOR UPDATE SKIP LOCKED" if self._hosts else "FOR UPDATE"
        self.lock_hosts((host for some in hosts_of.values() for host in some), how)
        self._whole_sites |= {key for key in missing if all(map(self.is_locked, hosts_of[key]))}
        return self._whole_sites & set(keys)

    # -- the table --------------------------------------------------------------------------------------------

    def has_candidates(self, collection: int) -> bool:
        """Whether any site could be chosen; at the end of a run this is found out without waiting."""
        question = "SELECT 1 FROM site WHERE collection = %b::bigint AND stage = ANY(%b::bigint[]) LIMIT 1"
        stages = [int(SiteStage.LISTED), int(SiteStage.HEARD)]
        return bool(self.cache.query(question, [collection, stages]))

    def acquire_site_table(self, collection: int, room: int, chosen: int, exchanged: int) -> None:
        """Fetch the candidates as they stand, then lock them; a site that moved meanwhile drops out."""
        heard, listed = (collection, int(SiteStage.HEARD)), (collection, int(SiteStage.LISTED))
        coming, going = max(room, 0), max(-room, 0)
        ((better,),) = self.cache.query(
            f"SELECT count(*) FROM (SELECT mentions {MOST_MENTIONED} {LIMIT} OFFSET %b::bigint) k"
            f" WHERE mentions > (SELECT mentions {LEAST_MENTIONED} LIMIT 1)",
            [*heard, exchanged, coming, *listed],
        )
        rows = self.cache.query(
            f"(SELECT name {MOST_MENTIONED} {LIMIT}) UNION ALL (SELECT name {MOST_MENTIONED} {LIMIT})"
            f" UNION ALL (SELECT name {LEAST_MENTIONED} {LIMIT})",
            [*heard, coming + better + chosen, *listed, chosen, *listed, going + better + chosen],
        )
        self.prefetch("site", [(collection, name) for (name,) in rows])
