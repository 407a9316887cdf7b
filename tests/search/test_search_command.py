"""`tarrafa search`: the options of the page, and everything said that was done with the words."""

import json

import pytest
from typer.testing import CliRunner

from tarrafa.cli.app import app
from tarrafa.errors import ConfigError, QueryError
from tarrafa.index import follower as index
from tarrafa.search import searcher
from tests.graph.archived_web import new_data, write
from tests.search.sample_pages import PATIENCE_S
from tests.search.test_query_expansion import three


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = new_data(tmp_path_factory.mktemp("command") / "data")
    write(data, three())
    index.catch_up(data)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["search", "--data", str(data.root), *arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(searcher, "ONE_SEARCH_WAIT_S", PATIENCE_S)
        yield run


def test_added_words_are_said(run):
    plain, expanded = run("database"), run("database", "--expand")
    assert "2 pages" in plain
    assert "Also looked for" not in plain
    assert "Also looked for: mysql" in expanded
    assert "3 pages" in expanded


def test_what_may_have_been_meant_is_said_and_shown(run):
    said = run("databse")
    assert "Nothing found for 'databse'" in said
    assert "Did you mean: database" in said
    assert "Results for that spelling:" in said
    assert "2 pages" in said
    found = json.loads(run("databse", "--json"))
    assert (found["suggestion"], found["instead"], found["expanded"]) == ("database", "spelling", ["database"])


def test_where_no_page_has_all_words_some_of_them_are_looked_for_and_that_is_said(run):
    assert "No page holds all of the words; these hold some:" in run("--all", "dbms", "optimizing")
    assert "Nothing found" in run('"dbms optimizing"')


def test_words_that_stand_nearly_everywhere_are_left_out_and_said(run):
    said = run("--natural", "mysql", "dbms")
    assert "Ignored, because nearly every page contains them: mysql" in said
    assert "1 page," in said


def test_how_the_words_may_go_on(run):
    assert run("--suggest", "data").split() == ["database"]
    assert json.loads(run("--suggest", "tutorial", "d", "--json")) == ["tutorial database", "tutorial dbms"]
    assert run("--suggest", "zzz") == ""


def test_pages_like_one_with_or_without_words(run):
    assert "http://three.org/" in run("--related", "http://one.org/")
    assert "http://three.org/" not in run("--related", "http://one.org/", "comparison")
    with pytest.raises(QueryError, match="not indexed"):
        run("--related", "http://nowhere.org/")


@pytest.mark.parametrize("more", ["--sort=date", "--sort=links", "--recent", "--crowded", "--copies"])
def test_the_other_options_of_the_page(run, more):
    assert "2 pages" in run("database", more)
    assert "1 page," in run("-comparison", "database", more)


def test_the_copies_of_one_page(run):
    assert "http://two.org/" not in run("database", "--like", "http://one.org/")


def test_nothing_to_look_for_is_one_sentence(run):
    with pytest.raises(ConfigError, match="give words, or"):
        run()


def test_beyond_the_last_there_are_only_so_many(run):
    assert "There are only 2 results." in run("database", "--offset", "50")


def test_scores_are_told_where_the_best_stand_first(run):
    assert "score " in run("database")
    assert "score " not in run("database", "--sort", "date")
