"""`tarrafa import warc`: from files to a collection in archive, frontier, graph, index and triple store.

The steps: know the files by their digests, survey them, open the collection (or make one from the hosts found, paused),
finish what a killed import had begun, import the captures, let the followers catch up.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.foreign_archive_reader import ArchiveSource, Damage
from tarrafa.archive.import_sources import find_files, open_sources, remove_scratch
from tarrafa.archive.segment_log.log_mirror import refuse_mirror
from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.compaction.switch import recover
from tarrafa.crawl.rebuild_frontier import ReplayClock
from tarrafa.crawl.scope.collection_loader import ROOTS_MAX, complete_collection, load_collection
from tarrafa.crawl.supervisor.supervisor import Supervisor, submit_collection
from tarrafa.crawl.warc_import.capture_importer import ImportCounts, WarcImporter
from tarrafa.crawl.warc_import.capture_loader import CaptureLoader
from tarrafa.crawl.warc_import.import_recovery import recover_import
from tarrafa.crawl.warc_import.import_state import ImportState
from tarrafa.crawl.warc_import.survey import digest_of, run_survey, unpack_source
from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.i18n import message
from tarrafa.parse.documents.document import OFFICE_TYPES, PDF_TYPES, RTF_TYPES
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

SCRATCH = "import"  # below run/
DAMAGES_SHOWN_MAX = 1_000
SIZE_MAX = "16 MB"  # of a document of a collection that is made from files
IMPORTED = message("imported, not crawled: it fetches nothing until it is resumed")

Advance = Callable[[int], None]
ProgressReporter = Callable[[str, int], AbstractContextManager[Advance]]


@dataclass(slots=True)
class WarcImport:
    """What an import has done. `tally`: what the files hold, and what became of it."""

    collection: str
    files: int
    files_known: int = 0  # that were imported before
    is_new: bool = False  # the collection was made from the hosts found
    recovered: int = 0  # visits that a killed import had archived
    counts: ImportCounts = field(default_factory=ImportCounts)
    tally: dict[str, int] = field(default_factory=dict)
    damages: list[tuple[str, int, str]] = field(default_factory=list)  # file, offset, reason; the first of them


@dataclass(slots=True)
class _Session:
    """The files of one import."""

    sources: dict[int, ArchiveSource] = field(default_factory=dict)
    known: int = 0


async def import_warc(
    data: DataDirectory, named: list[Path], collection: str, progress: ProgressReporter, *, everything: bool = False
) -> WarcImport:
    """Import files and folders into a collection: one that the frontier knows, one that a collection file defines
    (`collection` then is its path), or a new one that is made from the hosts found."""
    files = find_files(named)
    definition = load_collection(Path(collection)) if collection.endswith(".toml") else None
    name = definition.name if definition is not None else collection
    data.create()
    refuse_mirror(data, "an import")
    lock = data.try_lock()
    if lock is None:
        raise ConfigError(f"{data.root}: a crawl runs here; stop it first")
    now = Clock.from_environment().now()
    with lock, contextlib.closing(ImportState(data)) as state:
        recover(data)
        if not data.frontier.exists() and visit_lengths(data.archive):  # it would give numbers that the archive has
            raise DataError(
                f"{data.frontier}: is missing, but the archive holds visits; run `tarrafa rebuild frontier`"
            )
        result = WarcImport(name, len(files))
        scratch = data.run / SCRATCH
        try:
            revision = await _open_known(data, name, definition)
            session = _survey_files(data, files, name, revision, state, scratch, now, progress, everything=everything)
            result.files_known = session.known
            if not revision and session.sources:
                await _open_new(data, name, state)
                result.is_new = True
            if revision or session.sources:
                await _import(data, result, session, state, progress, now, everything=everything)
        finally:
            remove_scratch(scratch)
        state.finish(await _revision(data, name))
    if result.counts.imported or result.recovered:
        with progress("making the pages searchable", 1) as advance:
            await _follow(data)
            advance(1)
    return result


# -- files -------------------------------------------------------------------------------------------------------------


def _survey_files(
    data: DataDirectory,
    files: list[Path],
    collection: str,
    revision: int,
    state: ImportState,
    scratch: Path,
    now: float,
    progress: ProgressReporter,
    *,
    everything: bool,
) -> _Session:
    """Survey what was not surveyed before."""
    session, options = _Session(), "all" if everything else "scope"
    total = 2 * sum(path.stat().st_size for path in files)
    with progress("looking through the files", total) as advance:
        for path in files:
            for source, damage in open_sources(path, scratch, data.check_space):
                known = state.open_source(collection, digest_of(source, advance), options, source.name, revision)
                if known.is_done or known.number in session.sources:
                    session.known += 1
                    advance(source.size())
                    continue
                unpacked = scratch / f"{known.number}.warc"

                def unpack(one: ArchiveSource, target: Path = unpacked) -> tuple[ArchiveSource, Damage | None]:
                    return unpack_source(one, target, data.check_space)

                if not known.is_surveyed:
                    session.sources[known.number] = run_survey(source, known.number, state, now, advance, unpack)
                    if damage is not None:
                        state.add_damage(known.number, damage.offset, damage.reason)
                        state.add_tally(known.number, {"damaged": 1})
                        state.commit()
                else:
                    session.sources[known.number] = unpack(source)[0] if known.is_solid else source
                    advance(source.size())
    state.commit()
    return session


# -- the collection ----------------------------------------------------------------------------------------------------


async def _open_known(data: DataDirectory, name: str, definition: Collection | None) -> int:
    """Open the collection if there is one, or if it is defined; its revision, 0: there is none."""
    if definition is None and not data.frontier.exists():
        return 0
    async with _frontier(data) as frontier:
        if workers := (await frontier.overview()).nodes:
            raise ConfigError(f"{data.frontier}: workers take part here ({workers[0].name}); stop them first")
        before = await frontier.collection(name)
        if definition is None:
            return 0 if before is None else before.revision
        row = await submit_collection(frontier, definition, start=False)
        if before is None:
            await frontier.set_state(name, "paused", IMPORTED)
        return row.revision


async def _open_new(data: DataDirectory, name: str, state: ImportState) -> None:
    """Make a collection from the hosts found. It is paused: nothing is fetched without the user's wish."""
    roots = state.roots(ROOTS_MAX)
    if not roots:
        raise DataError(
            f"the files hold no page to make the collection {name} from; `--collection FILE.toml` names a definition"
        )
    types = [*ScopeConfig().types, *sorted(PDF_TYPES | RTF_TYPES | OFFICE_TYPES)]
    table = {"name": name, "roots": roots, "scope": {"types": types, "size_max": SIZE_MAX}}
    made = complete_collection(table, f"--collection {name}")
    async with _frontier(data) as frontier:
        await submit_collection(frontier, made, start=False)
        await frontier.set_state(name, "paused", IMPORTED)


async def _revision(data: DataDirectory, name: str) -> int:
    if not data.frontier.exists():
        return 0
    async with _frontier(data) as frontier:
        row = await frontier.collection(name)
        return 0 if row is None else row.revision


@contextlib.asynccontextmanager
async def _frontier(data: DataDirectory) -> AsyncIterator[SqliteFrontier]:
    frontier = SqliteFrontier(data.frontier, Clock.from_environment(), bundled_suffix_list())
    try:
        yield frontier
    finally:
        await frontier.close()


# -- captures ----------------------------------------------------------------------------------------------------------


async def _import(
    data: DataDirectory,
    result: WarcImport,
    session: _Session,
    state: ImportState,
    progress: ProgressReporter,
    now: float,
    *,
    everything: bool,
) -> None:
    own = try_lock(data.frontier.with_name(f"{data.frontier.name}.lock"))
    if own is None:
        raise ConfigError(f"{data.frontier}: another process has the frontier open")
    _check_deletions(data, result.collection, state)
    past = ReplayClock(0.0, 0.0)
    past.moment[0] = now
    with (
        own,
        contextlib.closing(FrontierReplay(str(data.frontier), past, bundled_suffix_list(), is_live=True)) as replay,
    ):
        result.recovered = recover_import(data, replay, past, state)
        if session.sources:
            loader = CaptureLoader(session.sources, state, now)
            importer = WarcImporter(
                data, result.collection, replay, past, state, loader, everything=everything, now=now
            )
            with progress("importing", state.count_open()) as advance:
                await importer.run(advance)
            result.counts = importer.counts
            result.tally = state.tally()
            result.damages = [one for one, _ in zip(state.damages(), range(DAMAGES_SHOWN_MAX), strict=False)]


def _check_deletions(data: DataDirectory, name: str, state: ImportState) -> None:
    """Captures that are older than the deletion of a namesake would belong to the deleted collection."""
    deleted = ArchiveDeletions(data.archive).latest().get(name)
    if deleted is not None and (first := state.first_date()) is not None and first <= deleted:
        raise ConfigError(
            f"{name}: a collection of this name was deleted after the captures were made, and they would count as"
            " deleted; use another name"
        )


async def _follow(data: DataDirectory) -> None:
    """Let graph, index and triple store take in what was archived."""
    async with Supervisor(data, 0, lasting=True, print_line=lambda line: None) as supervisor:
        await supervisor.catch_up()
