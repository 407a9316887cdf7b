"""Whose dates may be believed."""

from tarrafa.revisit.date_trust import REMEMBERED_MAX, DateTrust, check_last_modified, check_sitemap_date


def judged(*verdicts: bool | None) -> DateTrust:
    record = DateTrust()
    for verdict in verdicts:
        record = record.updated(verdict)
    return record


def test_nobody_is_believed_at_first():
    assert not DateTrust().is_trusted
    assert not judged(True).is_trusted
    assert judged(True, True).is_trusted


def test_one_lie_in_ten_is_too_many():
    assert not judged(*[True] * 9, False).is_trusted
    assert judged(*[True] * 30, False).is_trusted


def test_what_says_nothing_changes_nothing():
    assert judged(None, None, True) == DateTrust(1, 0)


def test_an_old_record_fades():
    record = judged(*[False] * 300, *[True] * 6000)
    assert record.is_trusted
    assert record.right + record.wrong <= REMEMBERED_MAX


def test_a_date_is_right_when_it_moves_with_the_text():
    assert check_last_modified(changed=True, before=50, claimed=150, last=100, at=200) is True
    assert check_last_modified(changed=True, before=50, claimed=50, last=100, at=200) is False
    assert check_last_modified(changed=False, before=50, claimed=50, last=100, at=200) is True
    assert (
        check_last_modified(changed=False, before=50, claimed=200, last=100, at=200) is False
    )  # stamped with the time of day


def test_a_date_of_the_future_is_wrong_and_none_says_nothing():
    assert check_last_modified(changed=True, before=50, claimed=900, last=100, at=200) is False
    assert check_last_modified(changed=True, before=50, claimed=0, last=100, at=200) is None
    assert check_last_modified(changed=False, before=0, claimed=150, last=100, at=200) is None


def test_an_announcement_is_judged_only_where_it_claims_a_change():
    assert check_sitemap_date(changed=True, claimed=150, last=100, at=200) is True
    assert check_sitemap_date(changed=False, claimed=150, last=100, at=200) is False
    assert check_sitemap_date(changed=True, claimed=90, last=100, at=200) is None
    assert check_sitemap_date(changed=True, claimed=900, last=100, at=200) is False
