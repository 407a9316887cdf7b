"""Schema of the PostgreSQL tables, translated from the SQLite schema, with the tables of their own.

The tables of `../store/database.py`, translated from its text, and some more: counters have a row per part, so that
workers that count at the same moment do not wait for each other; `claim` lists the claimed addresses, over several
servers. The version is in `meta`; a database of another version is not touched: a frontier can be rebuilt from the
archive.
"""

import re

import psycopg

from tarrafa.errors import DataError
from tarrafa.frontier.postgres.segment_manifest import MANIFEST_TABLES
from tarrafa.frontier.store.database import PART_TABLES, TABLES

SCHEMA_VERSION = 8
SCHEMA_LOCK = 0x7A66_0001  # advisory lock for creating or changing tables
COUNTER = re.compile(r"CREATE TABLE counter \(.*?\n\) WITHOUT ROWID;\n", re.DOTALL)
POSTGRES_TYPES = {"INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
# Frequently updated tables leave many dead rows: they are vacuumed early.
HOT_TABLES = (
    "url", "pending", "ready", "handed", "work", "host", "site", "due", "shelf", "counter", "worker", "address",
)  # fmt: skip

POSTGRES_TABLES = """
CREATE TABLE counter (
    collection BIGINT NOT NULL, bucket TEXT NOT NULL, part BIGINT NOT NULL, value BIGINT NOT NULL,
    PRIMARY KEY (collection, bucket, part)
);
CREATE TABLE token (
    collection BIGINT PRIMARY KEY, saved_from DOUBLE PRECISION NOT NULL, peak_from DOUBLE PRECISION NOT NULL
);
CREATE TABLE claim (
    address TEXT PRIMARY KEY, host BIGINT, worker BIGINT, delay_s DOUBLE PRECISION NOT NULL,
    next_at DOUBLE PRECISION NOT NULL
);
CREATE INDEX claim_worker ON claim (worker) WHERE worker IS NOT NULL;
CREATE TABLE takedown (number BIGINT PRIMARY KEY, entry BYTEA NOT NULL UNIQUE);
CREATE TABLE outbox (
    number BIGSERIAL PRIMARY KEY, server TEXT NOT NULL, collection BIGINT NOT NULL, links BYTEA NOT NULL,
    taken DOUBLE PRECISION NOT NULL DEFAULT 0
);
"""


def _to_postgres(text: str) -> str:
    text = text.replace(") WITHOUT ROWID;", ");")
    for ours, theirs in POSTGRES_TYPES.items():
        text = re.sub(rf"\b{ours}\b", theirs, text)
    return text


def create_statements() -> str:
    """The SQLite tables as PostgreSQL statements."""
    text = _to_postgres(COUNTER.sub("", TABLES) + PART_TABLES)
    settings = "".join(
        f"ALTER TABLE {name} SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02,"
        " autovacuum_analyze_scale_factor = 0.05);\n"
        for name in HOT_TABLES
    )
    return text + POSTGRES_TABLES + MANIFEST_TABLES + settings


def open_schema(connection: psycopg.Connection[tuple[object, ...]], suffix_list: str, where: str) -> dict[str, str]:
    """Create the tables if there are none; returns `meta`, with the public suffix list and the database's own id, which
    are stored once, at creation."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (SCHEMA_LOCK,))
        row = connection.execute("SELECT to_regclass('meta')").fetchone()
        if row is None or row[0] is None:
            connection.execute(create_statements().encode())
            connection.execute(
                "INSERT INTO meta VALUES ('version', %s), ('suffix_list', %s), ('id', gen_random_uuid()::text)",
                (str(SCHEMA_VERSION), suffix_list),
            )
        facts = {str(key): str(value) for key, value in connection.execute("SELECT key, value FROM meta").fetchall()}
        version = int(facts.get("version", 0))
        if not version:
            raise DataError(f"{where}: has a table `meta` that is not Tarrafa's; use a database of its own")
        if version > SCHEMA_VERSION:
            raise DataError(f"{where}: written by a newer Tarrafa (schema {version}, this one knows {SCHEMA_VERSION})")
        if version < SCHEMA_VERSION:
            raise DataError(
                f"{where}: written by an older Tarrafa (schema {version}, this one knows {SCHEMA_VERSION}); nothing was"
                " changed. `tarrafa rebuild frontier` makes a frontier again from the archive, `export frontier` and"
                " `import frontier` bring it into an empty database (docs/cluster.md)"
            )
    return facts
