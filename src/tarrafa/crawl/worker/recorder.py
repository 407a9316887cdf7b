"""Records visits, robots.txt files and collection configurations in the archive.

A record of each visit with its bytes, and notes without which a lost frontier could not be made again: how the
collections were configured that the visits belong to, what sitemaps listed, what hosts allow.
Promises: each pair of files can be read by itself; what cannot be written down becomes a refusal, not a failure.
"""

import traceback

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit, build_exchange, refuse_visit
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import CollectionNote, HostNote, ListingNote, Status


class VisitRecorder:
    """One worker's. Nothing is durable before its writer is sealed."""

    def __init__(self, writer: WarcWriter, clock: Clock) -> None:
        self._writer, self._clock = writer, clock
        self._noted: dict[int, tuple[int, int, int]] = {}  # in which pair of files, as of which revision and run

    def record_visit(
        self, walk: HostSession, revision: int, collection: Collection, done: FinishedVisit
    ) -> FinishedVisit:
        """The visit as it was written down."""
        self._record_configuration(walk, revision, collection)
        try:
            if done.listing is not None:
                note = ListingNote(walk.collection.name, done.visit.url, done.visit.number, done.listing)
                self._writer.append_note(note, self._clock.now())
            self._writer.append(done.record, done.exchange)
        except (UnicodeError, ValueError, TypeError) as error:  # what a page said cannot be written down
            traceback.print_exc()
            name, now = walk.collection.name, self._clock.now()
            done = refuse_visit(done.visit, name, Status.HOSTILE, now, type(error).__name__)
            self._writer.append(done.record, None)
        return done

    def record_host(
        self, walk: HostSession, revision: int, collection: Collection, sitemaps: list[DiscoveredUrl]
    ) -> None:
        """What the host allows, if that is news, and which sitemaps it names."""
        self._record_configuration(walk, revision, collection)
        robots = walk.new_robots
        note = HostNote(
            walk.collection.name,
            walk.lease.host_key,
            min((offer.depth for offer in sitemaps), default=0),
            walk.delay_s,
            tuple(offer.url for offer in sitemaps),
        )
        if robots is not None:
            note = replace(note, status=robots.status, expires=robots.expires, text=robots.text)
        self._writer.append_note(note, self._clock.now())

    def record_robots(self, request: FetchRequest, response: FetchResponse) -> None:
        self._writer.append_exchange(build_exchange(request, response, self._clock.now()))

    def _record_configuration(self, walk: HostSession, revision: int, collection: Collection) -> None:
        number, run = walk.lease.collection, walk.lease.run
        if self._noted.get(number) != (self._writer.file_pair, revision, run):
            content = msgspec.Raw(config.encode_collection(config.redact_for_archive(collection)))
            self._writer.append_note(CollectionNote(collection.name, revision, content, run), self._clock.now())
            self._noted[number] = (self._writer.file_pair, revision, run)
