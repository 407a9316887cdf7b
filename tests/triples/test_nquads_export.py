"""What pages state leaves as N-Quads that other tools read, the same bytes each time."""

import gzip
import io
from pathlib import Path

import pytest
import rdflib
import zstandard
from pyoxigraph import RdfFormat, Store, parse
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.errors import ConfigError, DataError
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples.follower import catch_up, rebuild
from tarrafa.triples.nquads_export import StatementExport, write_nquads
from tests.graph.archived_web import new_data
from tests.graph.archived_web import write as archive
from tests.triples.sample_statements import a_page, a_person, contents, lives

ODD = 'linha\num "dois" \\três\ttabulação é 日本 \U0001f41f'


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    data = new_data(tmp_path / "data")
    archive(data, [*lives(10, 60, 2), a_page("http://z.test/?q={x}", 1, a_person(ODD), collection="outra")])
    catch_up(data)
    return data


def exported(data: DataDirectory, *more: str, name: str = "all.nq.gz") -> bytes:
    file = data.root.parent / name
    line = ["export", "statements", str(file), "--data", str(data.root), "--force", *more]
    result = CliRunner().invoke(app, line, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return file.read_bytes()


def test_all_of_it_is_there_and_nothing_else_however_it_is_compressed(data):
    lines = gzip.decompress(exported(data)).decode().splitlines()
    stated = {f"{line} ." for line in contents(data) if "<urn:tarrafa:" not in line}
    assert {*lines} == stated
    assert len(lines) == len(stated)
    plain = exported(data, name="all.nq")
    assert plain.decode().splitlines() == lines
    packed = io.BytesIO(exported(data, name="all.nq.zst"))
    assert zstandard.ZstdDecompressor().stream_reader(packed).read() == plain


@pytest.mark.filterwarnings("ignore:Dataset:DeprecationWarning")
def test_pyoxigraph_and_rdflib_read_it(data):
    plain = gzip.decompress(exported(data))
    quads = list(parse(plain, RdfFormat.N_QUADS))
    again = Store()
    again.extend(quads)
    others = rdflib.Dataset()
    others.parse(data=plain.decode(), format="nquads")
    found = list(others.quads())
    assert len(found) == len(again) == len(plain.splitlines())
    assert ODD in {str(value) for _, _, value, _ in found}


def test_the_same_pages_give_the_same_bytes_in_whatever_parts(data):
    before = exported(data)
    rebuild(data)
    assert exported(data) == before
    shards.set_layout(data, shards.parse_layout("3", "test"))
    rebuild(data)
    assert exported(data) == before


def test_one_collection_is_what_it_has(data):
    assert len(exported(data, "--collection", "outra", name="one.nq").splitlines()) == 2
    with pytest.raises(ConfigError, match=r"no collection named 'nenhuma' .*there are: c0, c1, outra"):
        exported(data, "--collection", "nenhuma", name="none.nq")
    assert not list(data.root.parent.glob("none*"))


def test_what_is_not_whole_does_not_look_whole(data, monkeypatch):
    file = data.root.parent / "all.nq.gz"
    kept = exported(data)

    def fail(self: StatementExport, page: str, number: int) -> list[str]:
        raise DataError("the disk is gone")

    monkeypatch.setattr(StatementExport, "lines", fail)
    with pytest.raises(DataError):
        exported(data)
    assert file.read_bytes() == kept
    assert [path.name for path in data.root.parent.glob("all*")] == ["all.nq.gz"]


def test_what_cannot_be_done_is_said(data, tmp_path):
    runner, there = CliRunner(), ["--data", str(data.root)]
    exported(data)
    for line, why in (
        ([str(data.root.parent / "all.nq.gz")], "exists already"),
        (["all.txt"], "must end in .nq, .nq.gz, .nq.zst"),
    ):
        result = runner.invoke(app, ["export", "statements", *line, *there])
        assert isinstance(result.exception, ConfigError)
        assert why in str(result.exception)
    with pytest.raises(DataError, match="no triple store yet"), StatementExport(new_data(tmp_path / "new")) as none:
        write_nquads(none, io.BytesIO())
