"""Schema of the frontier's tables: the SQL that creates them, its version, and the codes in their columns.

Keys are clustered by host: one worker's batch touches few places. `url` is everything known; `pending` orders what
waits, per host; `work` counts it; `ready` orders the hosts that have work and are with nobody; `handed` is what
workers hold, so that the crash of one gives it back without a scan.

Of what is kept fresh, `page` remembers its history and where it stands, `due` is the shelves of `revisit/policy.py`
(the smallest key of a shelf is its best page), `shelf` counts them, and `work.due` is when the host's earliest head
is worth a visit. `ready` has three kinds of rows, NEW and FAVOURED: hosts with new URLs, and OLD: hosts with pages to
see again. `standing` orders pages by in-links, in collections that exchange their least important ones for better.

Under the order of breadth a site's row says where it stands (`ordering/breadth_rules.py`): its stage, how often it was
mentioned, the best of its URLs that wait (of a site that is being walked: the one that is next or out) with its rank
and host; how many pages the walk has seen, how many visits were in vain, and how many links led out of the last page.
`work.gate` says whether new URLs of a host may be handed out: of a site one host's gate at most is not closed.

`run` says in which run of its collection a URL was last found, and which one `work.visited` is about (runs.py);
`shown` is set while a URL waits, or is out, whose page others still show. `deleted` are collections that are no more.
"""

SCHEMA_VERSION = 6
NEW, OLD, FAVOURED = 0, 1, 2  # kinds of readiness
UNSHOWN, SHOWN, SWEPT = 0, 1, 2  # of what waits: others show its page from before; it is to be taken out there
SWEPT_RANK = -1e18  # before every other: what is to be taken out needs no request
CLOSED, OPEN, OUT = 0, 1, 2  # gates: nothing may be handed out; it may; the one visit that may be is out

BREADTH = """
CREATE INDEX site_stage ON site (collection, stage, mentions DESC, best);
CREATE INDEX host_site ON host (site);
"""

READY = """
CREATE TABLE ready (
    collection INTEGER NOT NULL, kind INTEGER NOT NULL, next_at REAL NOT NULL, host INTEGER NOT NULL,
    PRIMARY KEY (collection, kind, next_at, host)
) WITHOUT ROWID;
"""
FRESH = """
CREATE TABLE page (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL,
    shelf INTEGER NOT NULL, key REAL NOT NULL, gone INTEGER NOT NULL DEFAULT 0, history BLOB NOT NULL,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE due (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, shelf INTEGER NOT NULL, key REAL NOT NULL, id BLOB NOT NULL,
    PRIMARY KEY (host, collection, shelf, key, id)
) WITHOUT ROWID;
CREATE TABLE shelf (
    collection INTEGER NOT NULL, host INTEGER NOT NULL, shelf INTEGER NOT NULL, pages INTEGER NOT NULL,
    PRIMARY KEY (collection, host, shelf)
) WITHOUT ROWID;
CREATE TABLE standing (
    collection INTEGER NOT NULL, kept INTEGER NOT NULL, in_links INTEGER NOT NULL, host INTEGER NOT NULL,
    id BLOB NOT NULL, PRIMARY KEY (collection, kept, in_links, host, id)
) WITHOUT ROWID;
"""
WORKER = """
CREATE TABLE worker (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL,
    boot TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL, space TEXT NOT NULL,
    era TEXT NOT NULL, deadline REAL NOT NULL, hosts INTEGER NOT NULL DEFAULT 0, note TEXT NOT NULL DEFAULT ''
);
"""
DELETED = """
CREATE TABLE deleted (
    name TEXT PRIMARY KEY, collection INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
"""
TABLES = (
    READY
    + FRESH
    + DELETED
    + """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE number (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE collection (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, state TEXT NOT NULL, reason TEXT NOT NULL,
    config BLOB NOT NULL, revision INTEGER NOT NULL DEFAULT 1, created REAL NOT NULL,
    sequence INTEGER NOT NULL DEFAULT 0,
    price REAL NOT NULL DEFAULT 0, plan INTEGER NOT NULL DEFAULT 0, plan_end REAL NOT NULL DEFAULT 0,
    factor REAL NOT NULL DEFAULT 1, priced_at REAL NOT NULL DEFAULT 0, priced_revisits INTEGER NOT NULL DEFAULT 0,
    run INTEGER NOT NULL DEFAULT 1, started REAL NOT NULL DEFAULT 0, phase INTEGER NOT NULL DEFAULT 0,
    swept_host INTEGER, swept_url BLOB
);
CREATE TABLE host (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, site TEXT NOT NULL,
    next_at REAL NOT NULL DEFAULT 0, ended_at REAL NOT NULL DEFAULT 0,
    delay_s REAL NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    worker INTEGER, robots_status INTEGER, robots_digest BLOB, robots_expires REAL, memory BLOB,
    trouble TEXT NOT NULL DEFAULT '',
    modified_right INTEGER NOT NULL DEFAULT 0, modified_wrong INTEGER NOT NULL DEFAULT 0,
    announced_right INTEGER NOT NULL DEFAULT 0, announced_wrong INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX host_worker ON host (worker) WHERE worker IS NOT NULL;
CREATE TABLE address (address TEXT PRIMARY KEY, host INTEGER, next_at REAL NOT NULL) WITHOUT ROWID;
CREATE INDEX address_host ON address (host) WHERE host IS NOT NULL;
CREATE TABLE robots (digest BLOB PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE url (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL,
    url TEXT NOT NULL, depth INTEGER NOT NULL, redirects INTEGER NOT NULL, state INTEGER NOT NULL,
    sequence INTEGER NOT NULL, visits INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
    in_links INTEGER NOT NULL DEFAULT 0, status INTEGER, type TEXT, discovered REAL NOT NULL, fetched REAL,
    content_id TEXT, etag TEXT, last_modified TEXT, role INTEGER NOT NULL DEFAULT 0, announced REAL, parent BLOB,
    blamed INTEGER NOT NULL DEFAULT 0, payload TEXT NOT NULL DEFAULT '', archived REAL NOT NULL DEFAULT 0,
    pagerank REAL NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 1, shown INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE pending (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, rank REAL NOT NULL, id BLOB NOT NULL,
    PRIMARY KEY (host, collection, rank, id)
) WITHOUT ROWID;
CREATE TABLE work (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, pending INTEGER NOT NULL,
    visited INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, due REAL,
    gate INTEGER NOT NULL DEFAULT 1, favoured INTEGER NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (host, collection)
) WITHOUT ROWID;
CREATE TABLE site (
    collection INTEGER NOT NULL, name TEXT NOT NULL, hosts INTEGER NOT NULL,
    pages INTEGER NOT NULL DEFAULT 0, means REAL NOT NULL DEFAULT 0, squares REAL NOT NULL DEFAULT 0,
    stage INTEGER NOT NULL DEFAULT 0, mentions INTEGER NOT NULL DEFAULT 0, best REAL, host INTEGER, url BLOB,
    walked INTEGER NOT NULL DEFAULT 0, vain INTEGER NOT NULL DEFAULT 0, links INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (collection, name)
) WITHOUT ROWID;
CREATE TABLE visit (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL,
    at REAL NOT NULL, status INTEGER NOT NULL, length INTEGER NOT NULL, changed INTEGER,
    worker TEXT NOT NULL DEFAULT '', PRIMARY KEY (host, collection, id, number)
) WITHOUT ROWID;
CREATE TABLE handed (
    host INTEGER NOT NULL, collection INTEGER NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (host, collection, id)
) WITHOUT ROWID;
CREATE TABLE counter (
    collection INTEGER NOT NULL, bucket TEXT NOT NULL, value INTEGER NOT NULL,
    PRIMARY KEY (collection, bucket)
) WITHOUT ROWID;
"""
    + WORKER
    + BREADTH
)
