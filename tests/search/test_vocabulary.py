"""The words of an index, by their letters: what is known of them, how near they are, and who waits for whom."""

import threading
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.errors import DataError
from tarrafa.index import follower as index
from tarrafa.index.reader import IndexReader, IndexSnapshot
from tarrafa.index.text_analysis import entry_parts, fold, template_entries, vocabulary_entries
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import vocabulary as room
from tarrafa.search.vocabulary import IndexVocabulary, KnownWord, VocabularyCache, read_words
from tests.graph.archived_web import a_record, new_data, write

LETTERS = "abcde"


def of(*entries: tuple[str, int]) -> IndexVocabulary:
    """A vocabulary of these entries, in letters as they come."""
    letters: dict[str, list[tuple[str, int]]] = {}
    for entry, documents in sorted(entries):
        letters.setdefault(entry[0], []).append((entry, documents))
    return IndexVocabulary(letters.values())


def snapshot_of(data: DataDirectory, *texts: str) -> IndexSnapshot:
    write(data, [a_record(f"http://h{n}.br/{len(texts)}", text=text) for n, text in enumerate(texts)], f"w{len(texts)}")
    index.catch_up(data)
    return IndexReader(data).snapshot()


def test_the_writings_of_a_word_are_one_word_as_it_is_written_most():
    words = of(("funcao", 2), ("funcao|função", 7), ("funcao|funcão", 1), ("rede", 3))
    assert words.lookup("funcao") == KnownWord("função", 10)
    assert words.lookup("rede") == KnownWord("rede", 3)
    assert words.lookup("mar") == KnownWord("mar", 0)
    assert (len(words), words.documents_max) == (2, 10)


def test_of_too_many_words_the_most_frequent_are_known():
    entries = [(f"{letter}{other}", 10 * place + number)
               for place, letter in enumerate("abc") for number, other in enumerate("xyz")]  # fmt: skip
    words = IndexVocabulary([entries[0:3], entries[3:6], entries[6:9]], words_max=4)
    assert {name for name, _ in entries if words.lookup(name).documents} == {"cz", "cy", "cx", "bz"}


def test_the_most_frequent_words_of_a_beginning_come_first_whatever_their_length():
    words = of(("rede", 3), ("redes", 9), ("redemoinho", 4), ("red", 1), ("reta", 99), ("re", 2))
    assert [known.word for known in words.with_prefix("red", 3)] == ["redes", "redemoinho", "rede"]
    assert (
        words.count_with_prefix("red"),
        words.count_with_prefix("re"),
        words.count_with_prefix("x"),
        words.count_with_prefix(""),
    ) == (4, 6, 0, 6)


def distance(a: str, b: str) -> int:
    """Letters more, less or other, or neighbours exchanged: slowly, by definition."""
    rows = [[i + j if not i * j else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(st.sets(st.text(LETTERS, min_size=1, max_size=7), min_size=1, max_size=40), st.text(LETTERS, max_size=7))
def test_near_words_are_all_that_so_few_changes_lead_to(words, word):
    known = of(*((one, 1) for one in words))
    for most in (1, 2):
        found = {folded: apart for folded, _, apart in known.similar(word, most)}
        assert found == {one: apart for one in words if (apart := distance(one, word)) <= most}


@settings(max_examples=50)
@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_text_becomes_a_vocabulary_that_knows_its_words(texts):
    own = vocabulary_entries(" ".join(texts[::2]))
    template = template_entries(vocabulary_entries(" ".join(texts)), own)
    entries = sorted({*own.split(), *template.split()})
    words = of(*((entry, 1) for entry in entries))
    for entry in entries:
        folded = entry_parts(entry)[0]
        assert words.lookup(folded).documents >= 1
        assert fold(words.lookup(folded).word) == folded
        assert list(words.similar(folded, 1))


def test_what_is_read_is_what_the_index_holds_in_the_order_of_letters(tmp_path):
    snapshot = snapshot_of(new_data(tmp_path / "data"), "Zebra água rede ROSA não 1984", "rede ácido рыба")
    some = [letter for letter in read_words(snapshot) if letter]
    entries = dict(entry for letter in some for entry in letter)
    assert entries == {"zebra": 1, "agua|água": 1, "rede": 2, "rosa": 1, "nao|não": 1, "1984": 1, "acido|ácido": 1,
                       "рыба": 1}  # fmt: skip
    assert all(one[0][0][0] < other[0][0][0] for one, other in pairwise(some))


def test_nobody_waits_longer_than_he_wants_and_the_next_one_has_it(tmp_path, monkeypatch):
    snapshot = snapshot_of(new_data(tmp_path / "data"), "rede")
    go_on, words = threading.Event(), VocabularyCache()

    def slowly(of: IndexSnapshot) -> Any:
        go_on.wait(60)
        return read_words(of)

    monkeypatch.setattr(room, "read_words", slowly)
    assert words.newest(snapshot, 0.0) is None
    assert words.newest(snapshot, 0.001) is None
    go_on.set()
    found = words.newest(snapshot, 60.0)
    assert found is not None
    assert found.lookup("rede").documents == 1
    assert words.newest(snapshot, 0.0) is found


def test_it_is_read_again_after_a_commit_but_not_too_often(tmp_path):
    data, now = new_data(tmp_path / "data"), [0.0]
    words = VocabularyCache(now=lambda: now[0])
    first = words.newest(snapshot_of(data, "rede"), 60.0)
    assert first is not None
    later = snapshot_of(data, "rede", "barco")
    assert words.newest(later, 60.0) is first
    now[0] += room.RENEWAL_S_MIN
    assert words.newest(later, 60.0) in (first, words._newest)
    reader = words._reader
    assert reader is not None
    reader.join(60)
    newest = words.newest(later, 60.0)
    assert newest is not None
    assert newest.lookup("barco").documents == 1
    now[0] += 1_000 * room.RENEWAL_S_MIN
    assert words.newest(later, 60.0) is newest
    assert words._reader is reader, "nothing new, nothing to read"


def test_an_index_that_cannot_be_read_just_now_is_no_trouble(tmp_path, monkeypatch):
    snapshot, words = snapshot_of(new_data(tmp_path / "data"), "rede"), VocabularyCache()

    def broken(of: IndexSnapshot) -> Any:
        raise DataError("the index is being made again")

    monkeypatch.setattr(room, "read_words", broken)
    found = words.newest(snapshot, 60.0)
    assert found is not None
    assert len(found) == 0


@pytest.mark.parametrize("word", ["", "x" * 64, "\U0001f41f", "שלום", "漢字", "\x00"])
def test_strange_words_are_near_to_nothing(word):
    words = of(("rede", 1), ("barco", 1))
    assert list(words.similar(fold(word), 2)) == []
    assert words.with_prefix(word or "z", 5) == []
