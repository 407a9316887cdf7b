"""An archive with many versions of its pages in many small files, with a frontier and all projections."""

import random
from collections import Counter
from pathlib import Path

import apsw
import msgspec
import pytest
from typer.testing import CliRunner

from tarrafa import config
from tarrafa.archive.file_rewrite import read_members, record_id_of
from tarrafa.captures import follower as captures
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.reader import Capture, CapturesReader, KeyRange
from tarrafa.cli.app import app
from tarrafa.config.sections import ArchiveConfig
from tarrafa.crawl.verify.verification import Verification
from tarrafa.crawl.warc_import import capture_importer
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.triples import follower as triples
from tests.captures.archived_site import DAY_S, FIRST_AT, SiteArchive, new_archive

COLLECTION, BEGINNING = "versions", FIRST_AT - 900 * DAY_S
HOSTS = ("www.site.test", "sub.site.test", "other.test")


def run(*arguments: str | Path, code: int = 0, typed: str | None = None) -> str:
    done = CliRunner().invoke(app, [*map(str, arguments)], input=typed)
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


def write_versions(folder: Path, seed: int = 5, pages: int = 40) -> SiteArchive:
    """Pages with up to nine captures each: new versions, the same body again, 304s, a move."""
    rng, site = random.Random(seed), SiteArchive(new_archive(folder))
    events = []
    for number in range(pages):
        url = f"http://{HOSTS[number % 3]}/p{number}.html"
        at, kept = BEGINNING + rng.uniform(0, 20 * DAY_S), None
        for version in range(rng.randint(1, 9)):
            kind = rng.choice(["new", "new", "same", "304"]) if kept else "new"
            events.append((at, url, number, version, kind))
            kept = True
            at += rng.uniform(0.2, 30) * DAY_S
    last = dict[str, tuple[float, str, bytes]]()
    for at, url, number, version, kind in sorted(events):
        noise = bytes(random.Random(f"{number} {version}").choices(b"abcdefghijklmnop ", k=1500))
        link = f'<a href="http://{HOSTS[0]}/p{number // 2}.html">versão {version}</a>'.encode()
        body = b"<html><title>P%d</title><body><p>pagina%d revisao%d</p>%s<p>%s</p></body></html>" % (
            number, number, version, link, noise,
        )  # fmt: skip
        if kind == "new":
            last[url] = (at, site.visit(url, at, body), body)
        else:
            before = last[url]
            status = 304 if kind == "304" else 200
            site.visit(url, at, before[2], status=status, of=before[:2])
    site.close()
    return site


def import_versions(root: Path, source: Path, retention: str = "all") -> DataDirectory:
    """Import them, with many commits, so that there are several files; and follow."""
    data = DataDirectory(root)
    data.create()
    set_file_size(data, 30_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(capture_importer, "BATCH_CAPTURES", 20)
        patch.setattr(capture_importer, "WINDOW_CAPTURES", 10)
        definition = define(root.parent, retention)
        run("import", "warc", source, "--collection", definition, "--data", data.root, "--all")
    follow_all(data)
    set_file_size(data, 1_000_000)
    return data


def set_file_size(data: DataDirectory, size: int, more: str = "") -> None:
    (data.root / "archive.toml").write_text(f"file_size = {size}\n{more}")


def define(folder: Path, retention: str) -> Path:
    path = folder / f"{COLLECTION}.toml"
    path.write_text(
        f'name = "{COLLECTION}"\nroots = ["http://www.site.test/"]\n[scope]\nhosts = ["*.test"]\n'
        f'[politeness]\nuser_agent = "Test (mailto:a@b.test)"\n[archive]\nretention = "{retention}"\n'
    )
    return path


def follow_all(data: DataDirectory) -> None:
    graph.catch_up(data, lambda collection, weights: None)
    captures.catch_up(data)
    index.catch_up(data)
    triples.build_part(data)


def set_retention(data: DataDirectory, retention: str) -> None:
    """As if the collection was started again with another rule."""
    connection = apsw.Connection(str(data.frontier))
    ((content,),) = rows(connection, "SELECT config FROM collection WHERE name = ?", (COLLECTION,))
    stored = config.decode_collection(content)
    changed = msgspec.structs.replace(stored, archive=ArchiveConfig(retention=retention))
    connection.execute("UPDATE collection SET config = ?", (config.encode_collection(changed),))
    connection.close()


def record_ids(data: DataDirectory) -> Counter[str]:
    """All records but those that say whose file it is; what is in their heads but the length."""
    found = Counter[str]()
    for path in data.archive.glob("*.warc.gz"):
        for member in read_members(path, path.stat().st_size):
            if member.kind != "warcinfo":
                found[f"{member.kind} {record_id_of(member)}"] += 1
    return found


def captures_of(data: DataDirectory) -> list[Capture]:
    return list(CapturesReader(data).scan(KeyRange(), rows_max=None, with_noarchive=True))


def cdx_lines(data: DataDirectory) -> list[str]:
    return sorted(one.cdxj(with_files=False) for one in captures_of(data))


def bodies(data: DataDirectory) -> dict[tuple[str, str], bytes]:
    store = CaptureStore(data)
    return {(one.url, one.timestamp): store.read(one).body for one in captures_of(data) if not one.noarchive}


def hits(data: DataDirectory) -> list[tuple[str, ...]]:
    searcher = Searcher.open(data)
    found = (searcher.search(SearchRequest(f"pagina{number}")).hits for number in range(0, 40, 3))
    return [(one.url, one.title, one.snippet) for hits in found for one in hits]


def assert_clean(data: DataDirectory) -> None:
    with Verification(data, deep=True) as verification:
        report = verification.run()
    assert report.findings == [], report.findings
