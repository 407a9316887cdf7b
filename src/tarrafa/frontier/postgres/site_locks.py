"""Site locks: locks the sites of the `breadth` order and their hosts in one order, without deadlocks.

In the order of breadth the hosts of a site share one gate and one queue, so a change of one host concerns the others.
The site's row is the lock of them all: a transaction locks that row before it puts a URL into a queue of the site,
takes one out, or moves a gate.

Promises: the rows of sites are locked before any host, and in order; then the hosts, in order; so no deadlock is
possible. A row that turns out to be needed later is locked if it is free; otherwise the call begins anew (`StaleCopy`),
or, if it was about to lease, does without. A transaction that has locked a site sees all its hosts with pending URLs:
no other transaction can add one.

Known weakness: each step of a site session locks all hosts of its site with pending URLs, up to `site_hosts_max` of
them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from tarrafa.frontier.ordering import SiteStage
from tarrafa.frontier.postgres.working_copy import StaleCopy, WorkingCopy
from tarrafa.frontier.store.database import CLOSED
from tarrafa.model import HostId

OF_STAGE = "FROM site WHERE collection = %b::bigint AND stage = %b::bigint ORDER BY mentions"
# As in store/breadth_sites.py. Names are compared byte by byte, as in the working copy.
MOST_MENTIONED = f'{OF_STAGE} DESC, best, name COLLATE "C"'
LEAST_MENTIONED = f'{OF_STAGE}, best DESC, name COLLATE "C" DESC'
LIMIT = "LIMIT %b::bigint"

Key = tuple[int, str]  # of a site: collection and name


class SiteWorkingCopy(WorkingCopy):
    """A working copy that can lock and fetch whole sites."""

    def __init__(self, suffix_list: str) -> None:
        super().__init__(suffix_list)
        self._whole: set[Key] = set()

    def end(self) -> None:
        super().end()
        self._whole.clear()

    # -- at the start of a transaction: these wait -------------------------------------------------------------

    def site_names(self, hosts: Iterable[HostId]) -> dict[HostId, str]:
        """The sites of those hosts that are known; a host never changes its site."""
        wanted = sorted(set(hosts))
        question = "SELECT id, site FROM host WHERE id = ANY(%b::bigint[])"
        return dict(self._pg.execute(question, [wanted]).fetchall()) if wanted else {}

    def create_and_lock_sites(self, collection: int, names: Iterable[str]) -> None:
        """Create and lock these sites, so that two transactions with the same new site wait for each other and never
        collide."""
        wanted = sorted(set(names))
        self._pg.execute(
            "INSERT INTO site (collection, name, hosts) SELECT %b::bigint, name, 0 FROM unnest(%b::text[]) AS k(name)"
            " ON CONFLICT DO NOTHING",
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

    def lock_walks(self, pairs: Iterable[tuple[int, HostId]], hosts: Iterable[HostId]) -> None:
        """Lock the sites, the hosts in their sessions, and the other given hosts."""
        keys = self.lock_sites(pairs)
        walking = self._walk_hosts(keys)
        self.lock_hosts({*hosts, *(host for some in walking.values() for host in some)})
        self._whole |= keys

    def _walk_hosts(self, keys: Collection[Key]) -> dict[Key, list[HostId]]:
        """The hosts of sites that we have locked: no other transaction can add any."""
        found: defaultdict[Key, list[HostId]] = defaultdict(list)
        if keys:
            rows = self._pg.execute(
                "SELECT k.collection, k.name, w.host FROM unnest(%b::bigint[], %b::text[]) AS k(collection, name)"
                " JOIN host h ON h.site = k.name JOIN work w ON w.host = h.id AND w.collection = k.collection"
                " WHERE w.pending > 0 OR w.gate != %b::bigint",
                [[number for number, _ in keys], [name for _, name in keys], CLOSED],
            ).fetchall()
            for number, name, host in rows:
                found[number, name].append(host)
        return found

    # -- later: these never wait ---------------------------------------------------------------------------------

    def acquire_hosts(self, hosts: Sequence[HostId], walks_of: int | None = None) -> Sequence[HostId]:
        mine = super().acquire_hosts(hosts)
        if walks_of is None or not mine:
            return mine
        names = dict(self.rows(f"SELECT id, site FROM host WHERE id IN ({', '.join('?' * len(mine))})", mine))
        keys = self._try_lock_sites(walks_of, sorted(set(names.values())))
        whole = self._try_lock_walks(keys)
        return [host for host in mine if (walks_of, names[host]) in whole]

    def acquire_site(self, collection: int, host: HostId) -> None:
        name = self.value("SELECT site FROM host WHERE id = ?", (host,))
        if not self._try_lock_sites(collection, [name]):
            raise StaleCopy(f"site: somebody else has {name}")

    def _try_lock_sites(self, collection: int, names: Sequence[str]) -> set[Key]:
        """Lock those that are free; returns their keys."""
        wanted = {(collection, name) for name in names}
        if missing := sorted(name for _, name in wanted - self._seen["site"]):
            columns = ", ".join(self.tables["site"].columns)
            rows = self._pg.execute(
                f"SELECT {columns} FROM site WHERE collection = %b::bigint AND name = ANY(%b::text[])"
                " FOR UPDATE SKIP LOCKED",
                [collection, missing],
            ).fetchall()
            self._load("site", rows)
        return wanted & self._seen["site"]

    def acquire_walks(self, collection: int, names: Sequence[str]) -> None:
        keys = {(collection, name) for name in names}
        if len(self._try_lock_walks(keys)) < len(keys):
            raise StaleCopy("host: somebody else has one of a site's")
        hosts = self.rows(
            "SELECT work.host, collection FROM host JOIN work ON work.host = host.id AND collection = ?"
            f" WHERE site IN ({', '.join('?' * len(keys))}) AND pending > 0",
            (collection, *(name for _, name in keys)),
        )
        self.prefetch_first("pending", hosts, 1)

    def _try_lock_walks(self, keys: Collection[Key]) -> set[Key]:
        """The sites whose hosts we have locked or can lock. A transaction that holds no host yet may wait: it blocks no
        other."""
        missing = set(keys) - self._whole
        walking = self._walk_hosts(missing)
        how = "FOR UPDATE SKIP LOCKED" if self._locked else "FOR UPDATE"
        self.lock_hosts((host for some in walking.values() for host in some), how)
        self._whole |= {key for key in missing if all(map(self.is_locked, walking[key]))}
        return self._whole & set(keys)

    # -- the table --------------------------------------------------------------------------------------------

    def has_candidates(self, collection: int) -> bool:
        """Whether any site could be chosen; at the end of a run this is found out without waiting."""
        question = "SELECT 1 FROM site WHERE collection = %b::bigint AND stage = ANY(%b::bigint[]) LIMIT 1"
        stages = [int(SiteStage.LISTED), int(SiteStage.HEARD)]
        return self._pg.execute(question, [collection, stages]).fetchone() is not None

    def acquire_site_table(self, collection: int, room: int, chosen: int, exchanged: int) -> None:
        """Fetch the candidates as they stand, then lock them; a site that moved meanwhile drops out."""
        heard, listed = (collection, int(SiteStage.HEARD)), (collection, int(SiteStage.LISTED))
        coming, going = max(room, 0), max(-room, 0)
        (better,) = self._pg.execute(
            f"SELECT count(*) FROM (SELECT mentions {MOST_MENTIONED} {LIMIT} OFFSET %b::bigint) k"
            f" WHERE mentions > (SELECT mentions {LEAST_MENTIONED} LIMIT 1)",
            [*heard, exchanged, coming, *listed],
        ).fetchone() or (0,)
        rows = self._pg.execute(
            f"(SELECT name {MOST_MENTIONED} {LIMIT}) UNION ALL (SELECT name {MOST_MENTIONED} {LIMIT})"
            f" UNION ALL (SELECT name {LEAST_MENTIONED} {LIMIT})",
            [*heard, coming + better + chosen, *listed, chosen, *listed, going + better + chosen],
        ).fetchall()
        self.prefetch("site", [(collection, name) for (name,) in rows])
