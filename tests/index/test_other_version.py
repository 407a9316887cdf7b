"""An index that another version of Tarrafa wrote is recognised, and refused in one line that says what to do."""

import asyncio
from pathlib import Path

import pytest
import tantivy
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.clock import Clock
from tarrafa.errors import DataError
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.index import follower, index_state, schema
from tarrafa.index.follower import IndexFollower, behind, catch_up, rebuild
from tarrafa.index.reader import IndexReader
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import a_record, new_data, small_web, write


def _first_schema() -> tantivy.Schema:
    """As it was before copies were known."""
    builder = tantivy.SchemaBuilder()
    for name in ("key", "collection", "site", "host", "language"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("all", tokenizer_name="terms", index_option="position")
    builder.add_text_field("title", tokenizer_name="terms", index_option="freq")
    builder.add_integer_field("id_high", fast=True)
    builder.add_integer_field("id_low", fast=True)
    builder.add_bytes_field("shown", stored=True)
    return builder.build()


@pytest.fixture
def old(tmp_path: Path) -> DataDirectory:
    """Twenty pages in the archive, all of them indexed by an older version."""
    data = new_data(tmp_path / "data")
    write(data, small_web(20))
    catch_up(data)
    for path in schema.folder(data).iterdir():
        path.unlink()
    tantivy.Index(_first_schema(), path=str(schema.folder(data))).writer(15_000_000, 1).commit()
    return data


def test_a_reader_of_an_index_of_another_version_says_what_to_do(old):
    with pytest.raises(DataError, match="another version of Tarrafa; `tarrafa rebuild index`") as caught:
        IndexReader(old).snapshot()
    assert "\n" not in str(caught.value)
    assert rebuild(old) == 20
    assert IndexReader(old).snapshot().documents == 20


def test_the_follower_leaves_an_index_of_another_version_as_it_is_until_it_is_made_again(old):
    reader, folder = IndexReader(old), schema.folder(old)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(DataError, match=r"another version.*nothing was changed. `tarrafa rebuild index`"):
        catch_up(old)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert behind(old) > 0, "a crawl must not be found finished before"
    assert rebuild(old) == 20
    assert (reader.snapshot().documents, behind(old)) == (20, 0)
    write(old, [a_record("http://a.test/")], "w2")
    assert catch_up(old) == 1


def test_a_damaged_index_is_not_taken_for_one_of_another_version(old):
    meta = schema.folder(old) / "meta.json"
    meta.write_bytes(b"\x00 nonsense")
    assert not schema.is_other_version(old)
    with pytest.raises(DataError, match="cannot be used"), IndexFollower(old):
        pass
    assert meta.exists(), "what cannot be understood is not taken away unasked"
    assert follower.cursor(old)


def test_an_index_whose_state_is_of_another_version_is_searched_and_status_says_what_to_do(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, small_web(20))
    catch_up(data)
    with index_state.database_file(data).writing() as connection:
        connection.pragma("user_version", index_state.FORMAT - 1)
    assert Searcher.open(data).count_urls() == 20
    asyncio.run(SqliteFrontier(data.frontier, Clock.real(), "").close())
    shown = CliRunner().invoke(app, ["status", "--data", str(data.root)])
    assert (shown.exit_code, "`tarrafa rebuild index`" in shown.output) == (0, True)
