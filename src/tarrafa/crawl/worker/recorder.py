"""Records visits, robots.txt files and collection configurations in the archive.

The archive gets a record of each visit with its bytes, and notes that a rebuild of the frontier needs: the
configurations of the collections, the entries of sitemaps, the robots.txt of hosts.
Promises: each pair of files can be read by itself; a visit that cannot be encoded becomes a refusal, not a failure.
"""

import traceback
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.clock import Clock
from tarrafa.config import encode_collection
from tarrafa.config.sections import redact_for_archive
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit, build_exchange, refuse_visit
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import CollectionNote, HostNote, ListingNote, Status


class VisitRecorder:
    """Writes for one worker. Nothing is durable before the function that `seal` returns has run."""

    def __init__(self, writer: WarcWriter, clock: Clock, collections: WorkerCollections) -> None:
        self._writer, self._clock, self._collections = writer, clock, collections
        self._noted: dict[int, tuple[int, int, int]] = {}  # last note: pair of files, revision and run

    def record_visit(self, session: HostSession, done: FinishedVisit) -> FinishedVisit:
        """Record a visit; returns it as recorded."""
        self._record_configuration(session)
        try:
            if done.listing is not None:
                note = ListingNote(session.collection.name, done.visit.url, done.visit.number, done.listing)
                self._writer.append_note(note, self._clock.now())
            self._writer.append(done.record, done.exchange)
        except (UnicodeError, ValueError, TypeError) as error:  # the page's content cannot be encoded
            traceback.print_exc()
            name, now = session.collection.name, self._clock.now()
            done = refuse_visit(done.visit, name, Status.HOSTILE, now, type(error).__name__)
            self._writer.append(done.record, None)
        return done

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        """Record the host's robots.txt, if it is new, and the sitemaps that it names."""
        self._record_configuration(session)
        robots = session.robots.new_copy
        note = HostNote(
            session.collection.name,
            session.lease.host_key,
            min((offer.depth for offer in sitemaps), default=0),
            session.pacing.delay_s,
            tuple(offer.url for offer in sitemaps),
        )
        if robots is not None:
            note = replace(note, status=robots.status, expires=robots.expires, text=robots.text)
        self._writer.append_note(note, self._clock.now())

    def record_robots(self, request: FetchRequest, response: FetchResponse) -> None:
        self._writer.append_exchange(build_exchange(request, response, self._clock.now()))

    def seal(self) -> Callable[[], None]:
        """Fix the records so far; the returned function makes them durable and may run in a thread."""
        return self._writer.seal()

    def close(self) -> None:
        self._writer.close()

    def _record_configuration(self, session: HostSession) -> None:
        number, run = session.lease.collection, session.lease.run
        in_force = self._collections[number]
        state = (self._writer.file_pair, in_force.revision, run)
        if self._noted.get(number) != state:
            collection = in_force.collection
            content = msgspec.Raw(encode_collection(redact_for_archive(collection)))
            note = CollectionNote(collection.name, in_force.revision, content, run)
            self._writer.append_note(note, self._clock.now())
            self._noted[number] = (self._writer.file_pair, in_force.revision, run)
