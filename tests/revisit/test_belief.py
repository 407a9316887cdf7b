"""Whose dates may be believed."""

from tarrafa.revisit.belief import REMEMBERED_MAX, Record, announced, modified


def judged(*verdicts: bool | None) -> Record:
    record = Record()
    for verdict in verdicts:
        record = record.with_(verdict)
    return record


def test_nobody_is_believed_at_first():
    assert not Record().is_believed
    assert not judged(True).is_believed
    assert judged(True, True).is_believed


def test_one_lie_in_ten_is_too_many():
    assert not judged(*[True] * 9, False).is_believed
    assert judged(*[True] * 30, False).is_believed


def test_what_says_nothing_changes_nothing():
    assert judged(None, None, True) == Record(1, 0)


def test_an_old_record_fades():
    record = judged(*[False] * 300, *[True] * 6000)
    assert record.is_believed
    assert record.right + record.wrong <= REMEMBERED_MAX


def test_a_date_is_right_when_it_moves_with_the_text():
    assert modified(changed=True, before=50, claimed=150, last=100, at=200) is True
    assert modified(changed=True, before=50, claimed=50, last=100, at=200) is False
    assert modified(changed=False, before=50, claimed=50, last=100, at=200) is True
    assert modified(changed=False, before=50, claimed=200, last=100, at=200) is False  # stamped with the time of day


def test_a_date_of_the_future_is_wrong_and_none_says_nothing():
    assert modified(changed=True, before=50, claimed=900, last=100, at=200) is False
    assert modified(changed=True, before=50, claimed=0, last=100, at=200) is None
    assert modified(changed=False, before=0, claimed=150, last=100, at=200) is None


def test_an_announcement_is_judged_only_where_it_claims_a_change():
    assert announced(changed=True, claimed=150, last=100, at=200) is True
    assert announced(changed=False, claimed=150, last=100, at=200) is False
    assert announced(changed=True, claimed=90, last=100, at=200) is None
    assert announced(changed=True, claimed=900, last=100, at=200) is False
