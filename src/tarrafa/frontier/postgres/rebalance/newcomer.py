"""May this database become one of a frontier's servers?

Looked at without changing anything: it answers, it is empty or ours already, no newer Tarrafa wrote it, and its clock
shows what the others' do.
"""

from dataclasses import dataclass

import psycopg

from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.postgres.database_session import connect, describe_dsn
from tarrafa.frontier.postgres.schema import SCHEMA_VERSION

LOOK = "SELECT to_regclass('meta')::text, extract(epoch FROM clock_timestamp())::float8"
EXISTS = "SELECT EXISTS (SELECT 1 FROM host), EXISTS (SELECT 1 FROM collection)"


@dataclass(frozen=True, slots=True)
class Newcomer:
    """What stands in a database. `id` is empty where there is nothing of ours yet."""

    where: str
    first: str  # the first server of the frontier that it shall belong to
    id: str = ""
    version: int = 0
    member: str = ""  # of which frontier it is a server already
    has_hosts: bool = False
    has_collections: bool = False
    is_strange: bool = False  # its tables are somebody else's
    now: float = 0.0  # by its clock

    def check(self) -> None:
        """Refuse what holds anything of its own."""
        if self.is_strange:
            raise DataError(f"{self.where}: has a table `meta` that is not Tarrafa's; use a database of its own")
        if self.version > SCHEMA_VERSION:
            raise DataError(
                f"{self.where}: written by a newer Tarrafa (schema {self.version}, this one knows {SCHEMA_VERSION})"
            )
        if self.member not in ("", self.first):
            raise ConfigError(f"{self.where}: belongs to another frontier; name an empty database")
        if self.has_hosts or (self.has_collections and not self.member):
            raise ConfigError(f"{self.where}: holds a frontier of its own; name an empty database")


def look_at(dsn: str, first: str) -> Newcomer:
    where = describe_dsn(dsn)
    with connect(dsn, where) as connection:
        meta, now = connection.execute(LOOK).fetchone() or (None, 0.0)
        if meta is None:
            return Newcomer(where, first, now=now)
        try:
            facts: dict[str, str] = dict(connection.execute("SELECT key::text, value::text FROM meta").fetchall())
            version = int(facts["version"])
            hosts, collections = connection.execute(EXISTS).fetchone() or (True, True)
        except (psycopg.Error, KeyError, ValueError):
            return Newcomer(where, first, is_strange=True, now=now)
    identity = (facts.get("id", ""), version, facts.get("member", ""))
    return Newcomer(where, first, *identity, bool(hosts), bool(collections), now=now)
