"""A frontier in PostgreSQL with a segment log, and the machines that share it."""

import os
from pathlib import Path
from typing import Any

import psycopg

from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment_writer import SegmentWriter
from tarrafa.archive.warc_reader import follow
from tarrafa.frontier.postgres.postgres_frontier import PostgresFrontier
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.runtime.data_dir import DataDirectory
from tests.archive.test_warc_files import a_record, an_exchange
from tests.contract import postgres_process
from tests.contract.frontier_bodies import SUFFIXES


class Cluster:
    """A frontier in PostgreSQL with a log, and its machines."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.dsn = folder, postgres_process.a_server().database(f"log{os.getpid()}")
        PostgresFrontier([self.dsn], SUFFIXES)._first.connect().close()  # its first client makes the tables
        self._manifests: list[PostgresManifest] = []
        self.manifest = self.new_manifest()
        self.log = self.manifest.create(store)

    def new_manifest(self) -> PostgresManifest:
        self._manifests.append(PostgresManifest(self.dsn))
        return self._manifests[-1]

    def close(self) -> None:
        for manifest in self._manifests:
            manifest.close()

    def join(self, worker: int) -> None:
        """What the frontier does when a worker registers."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO number VALUES ('workers', %s) ON CONFLICT (name) DO UPDATE SET value = %s",
                (worker, worker),
            )
            connection.execute("INSERT INTO worker VALUES (%s, %s, '', 1, 1, '', '', 0, 0, '')", (worker, f"w{worker}"))

    def release(self, worker: int) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("DELETE FROM worker WHERE id = %s", (worker,))

    def writer(self, worker: int, **options: Any) -> SegmentWriter:
        self.join(worker)
        return SegmentWriter(self.new_manifest(), self.log, worker, lambda: True, **options)

    def machine(self, name: str) -> DataDirectory:
        data = DataDirectory(self.folder / name)
        data.create()
        return data

    def mirror(self, name: str) -> LogMirror:
        return LogMirror(self.machine(name), self.new_manifest(), self.log)

    def store(self) -> ObjectStore:
        return ObjectStore(self.log.store)


def write(writer: SegmentWriter, numbers: range) -> None:
    """One segment."""
    for number in numbers:
        writer.append(a_record(number), an_exchange(number))
    writer.prepare_commit()()


def visits(data: DataDirectory) -> list[str]:
    return [entry.record.url.rpartition("/")[2] for entry in follow(data.archive, {})]


def all_of(numbers: range) -> list[str]:
    return list(map(str, numbers))
