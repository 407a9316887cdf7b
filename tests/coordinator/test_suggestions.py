"""What visitors suggest is a list of URLs, and nothing else."""

import pytest

from tarrafa.coordinator import suggestions
from tarrafa.coordinator.suggestions import Suggestions
from tarrafa.errors import Busy, ConfigError
from tarrafa.runtime.data_dir import DataDirectory

NOON = 1_800_000_000.0


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


def test_nobody_can_suggest_until_somebody_switches_it_on_and_that_is_remembered(data):
    assert not Suggestions(data).is_on
    Suggestions(data).set_enabled(on=True)
    assert Suggestions(data).is_on
    Suggestions(data).set_enabled(on=False)
    assert not Suggestions(data).is_on


def test_a_url_stands_once_however_it_is_written_and_the_most_wanted_first(data):
    list_ = Suggestions(data)
    for typed in ("once.br", "www.A.br", "http://www.a.br/#top", "http://ana:secret@www.a.br"):
        list_.suggest(typed, NOON)
    told = list_.list_waiting()
    assert [(one.url, one.count) for one in told.suggestions] == [("http://www.a.br/", 3), ("http://once.br/", 1)]
    assert told.waiting == 2
    assert {one.day % 86_400 for one in told.suggestions} == {0}, "the day, not the moment"
    assert b"secret" not in data.coordinator.read_bytes()


@pytest.mark.parametrize("typed", ["", "no url at all", "javascript:alert(1)", "ftp://a.br/", "http://", "x" * 20_000])
def test_what_is_no_url_is_refused(data, typed):
    with pytest.raises(ConfigError, match=r"not an http\(s\) URL or a host name"):
        Suggestions(data).suggest(typed, NOON)
    assert Suggestions(data).list_waiting().waiting == 0


def test_what_was_decided_does_not_come_back_and_is_not_decided_twice(data):
    list_ = Suggestions(data)
    for typed in ("a.br", "b.br", "c.br"):
        list_.suggest(typed, NOON)
    assert list_.decide(["http://a.br/", "http://none.br/"], "rejected") == 1
    assert list_.decide(["http://a.br/", "http://b.br/"], "accepted", "news") == 1
    list_.suggest("a.br", NOON)
    list_.suggest("b.br", NOON)
    assert [one.url for one in list_.list_waiting().suggestions] == ["http://c.br/"]
    assert list_.filter_waiting(["http://b.br/", "http://c.br/", "http://c.br/"]) == ["http://c.br/"]


def test_no_more_wait_or_are_remembered_than_there_is_room_for(data, monkeypatch):
    monkeypatch.setattr(suggestions, "WAITING_MAX", 3)
    monkeypatch.setattr(suggestions, "DECIDED_KEPT_MAX", 2)
    list_ = Suggestions(data)
    for name in "abc":
        list_.suggest(f"{name}.br", NOON)
    with pytest.raises(Busy, match="too many suggestions wait"):
        list_.suggest("d.br", NOON)
    list_.suggest("a.br", NOON)
    assert list_.list_waiting().waiting == 3
    assert list_.decide([f"http://{name}.br/" for name in "abc"], "rejected") == 3
    list_.suggest("c.br", NOON)
    assert list_.list_waiting().waiting == 0
    list_.suggest("a.br", NOON)
    assert list_.list_waiting().waiting == 1, "the oldest decision was forgotten"
