"""List of the servers of a frontier, noted in their databases: the first one has all ids, each other one its first."""

import msgspec

from tarrafa.errors import ConfigError
from tarrafa.frontier.postgres.database_connection import DatabaseConnection


class ServerList:
    """What one server has noted of the frontier that it belongs to. A note is made once and for ever."""

    def __init__(self, connection: DatabaseConnection) -> None:
        self._connection = connection

    def server_ids(self) -> list[str]:
        """Of the first server: the ids of all servers, in order; empty, if they were never noted."""
        facts: dict[str, str] = dict(
            self._connection.read("SELECT key, value FROM meta WHERE key IN ('member', 'servers')")
        )
        if "member" in facts:
            raise ConfigError(
                f"{self._connection.where}: is one of several servers, and is not the first of its servers"
            )
        return msgspec.json.decode(facts.get("servers", "[]"), type=list[str])

    def note_server_ids(self, ids: list[str]) -> list[str]:
        """The first note stays, whichever process made it."""
        self._note("servers", msgspec.json.encode(ids).decode())
        return self.server_ids()

    def set_membership(self, first: str) -> None:
        """This server belongs to the frontier of that first server."""
        if self._connection.read("SELECT 1 FROM meta WHERE key = 'servers'"):
            raise ConfigError(f"{self._connection.where}: is the first server of another frontier")
        self._note("member", first)
        if self._connection.read("SELECT value FROM meta WHERE key = 'member'") != [(first,)]:
            raise ConfigError(f"{self._connection.where}: belongs to another frontier")

    def site_suffixes(self, suffixes: list[str] | None) -> list[str] | None:
        """Suffixes that are added to the public list by which sites are told apart; noted now, if none were before."""
        if suffixes is not None:
            self._note("suffixes", msgspec.json.encode(suffixes).decode())
        rows = self._connection.read("SELECT value FROM meta WHERE key = 'suffixes'")
        return msgspec.json.decode(rows[0][0], type=list[str]) if rows else None

    def _note(self, key: str, value: str) -> None:
        sql = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._connection.with_retries(lambda: self._connection.connect().execute(sql, (key, value)))
