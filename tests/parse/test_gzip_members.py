"""Members of gzip streams: all of them in pieces, and what is wrong with a stream is said."""

import gzip
import zlib

import pytest

from tarrafa.parse.gzip_members import MEMBERS_MAX, PIECE_BYTES, TooManyMembers, unzip


def test_all_members_are_unpacked_in_pieces_and_rubbish_behind_them_is_ignored():
    body = gzip.compress(b"a" * 3 * PIECE_BYTES) + gzip.compress(b"b") + b"rubbish"
    pieces = list(unzip(body))
    assert b"".join(pieces) == b"a" * 3 * PIECE_BYTES + b"b"
    assert max(map(len, pieces)) <= PIECE_BYTES


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (gzip.compress(bytes(range(256)))[:-9], EOFError),
        (b"", EOFError),
        (b"rubbish", zlib.error),
        (gzip.compress(b"a") * (MEMBERS_MAX + 1), TooManyMembers),
    ],
)
def test_a_cut_a_damage_and_too_many_members_are_told_apart(body, error):
    with pytest.raises(error):
        list(unzip(body))


def test_as_many_members_as_allowed_are_no_error():
    assert b"".join(unzip(gzip.compress(b"a") * MEMBERS_MAX)) == b"a" * MEMBERS_MAX
