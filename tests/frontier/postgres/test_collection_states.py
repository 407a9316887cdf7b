"""Who asks every second how the collections stand waits for nobody, and reads no configuration."""

import psycopg
import pytest

from tarrafa.frontier.messages import FrontierCollectionState
from tarrafa.frontier.postgres.database_session import CHANGE_LOCK
from tarrafa.frontier.postgres.operations.collection_calls import collection_states, open_collection
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer
from tests.contract.frontier_bodies import SUFFIXES, a_collection
from tests.contract.postgres_process import WHY_NOT, a_server, programs

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)


def test_how_collections_stand_is_told_while_one_is_edited_without_what_they_are():
    dsn = a_server().database("standings")
    server = PostgresServer(dsn, SUFFIXES)
    row = open_collection(server, a_collection(), [])
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(f"SELECT pg_advisory_lock({CHANGE_LOCK})")  # as whoever edits does
        other.execute("ALTER TABLE collection RENAME COLUMN config TO hidden")
        try:
            assert collection_states(server) == [FrontierCollectionState(row.id, "running", row.revision, "c")]
        finally:
            other.execute("ALTER TABLE collection RENAME COLUMN hidden TO config")
    server.close()


def test_a_database_that_was_away_is_asked_again():
    dsn = a_server().database("standings-away")
    server = PostgresServer(dsn, SUFFIXES)
    row = open_collection(server, a_collection(), [])
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid()"
        )
    assert [one.id for one in collection_states(server)] == [row.id]
    server.close()
