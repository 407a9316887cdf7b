"""Encodings, in the order in which browsers believe what they are told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.parse.charset import LABELS, decode

PORTUGUESE = "A ação do município não é só uma questão de opinião. "


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"\xef\xbb\xbfol\xc3\xa1", "text/html; charset=iso-8859-1", ("olá", "utf-8")),
        (b"\xff\xfeo\0l\0\xe1\0", "", ("olá", "utf-16le")),
        (b"\xfe\xff\0o\0l\0\xe1", "", ("olá", "utf-16be")),
        (b"ol\xe1", "text/html; charset=ISO-8859-1", ("olá", "windows-1252")),
        (b"\x93ol\xe1\x94", 'text/html;charset="latin1"; x=y', ("“olá”", "windows-1252")),
        (PORTUGUESE.encode("cp1252"), "text/html; charset=nonsense", (PORTUGUESE, "windows-1252")),
        (b"ol\xc3\xa1", "text/html", ("olá", "utf-8")),
        (b"<meta charset=iso-8859-2>\xb1", "", ("<meta charset=iso-8859-2>ą", "iso-8859-2")),
        (b"<meta charset=iso-8859-2>\xc4\x85", "text/html; charset=utf-8", ("<meta charset=iso-8859-2>ą", "utf-8")),
        (b"<META http-equiv='Content-Type' content='text/html; charset=koi8-r'>\xc1", "", (None, "koi8-r")),
        (b"<!-- <meta charset=koi8-r> --><meta charset=utf-8>\xc3\xa1", "", (None, "utf-8")),
        (b"<p title='<meta charset=koi8-r>'><meta charset=big5>", "", (None, "big5")),
        (b"<meta charset=utf-16>\xc3\xa1", "", (None, "utf-8")),
        (b"<meta charset=x-user-defined>\xe1", "", (None, "windows-1252")),
        (b"<meta charset=nonsense><meta charset=big5>", "", (None, "big5")),
        (b"<?xml version='1.0' encoding='iso-8859-15'?>\xa4", "", (None, "iso-8859-15")),
        (b"<meta name=charset content=koi8-r>\xc3\xa1", "", (None, "utf-8")),
        (b"x" * 1100 + b"<meta charset=koi8-r>\xc3\xa1", "", (None, "utf-8")),
        (b"<\0?\0x\0m\0l\0", "", ("<?xml", "utf-16le")),
        (b"anything", "text/html; charset=iso-2022-kr", ("\ufffd", "replacement")),
        (b"", "", ("", "utf-8")),
    ],
)
def test_whatwg_what_is_declared_decides(body, content_type, expected):
    text, name = decode(body, content_type)
    assert name == expected[1]
    assert expected[0] is None or text == expected[0]


@pytest.mark.parametrize(
    ("text", "codec", "expected"),
    [
        (PORTUGUESE, "cp1252", "windows-1252"),
        ("Привет мир, это русский текст для проверки кодировки", "cp1251", "windows-1251"),
        ("これは日本語のテキストです。文字コードの検出をする", "shift_jis", "shift_jis"),
        ("これは日本語のテキストです。文字コードの検出をする", "euc_jp", "euc-jp"),
    ],
)
def test_what_is_not_declared_is_recognised(text, codec, expected):
    assert decode(text.encode(codec) * 3) == (text * 3, expected)


@pytest.mark.parametrize(
    "body",
    [
        (PORTUGUESE * 5).encode()[:-3] + "ã".encode()[:1],
        (PORTUGUESE * 20).encode() + b"\xff" + (PORTUGUESE * 20).encode(),
    ],
)
def test_lenient_damaged_utf_8_is_still_utf_8(body):
    text, name = decode(body)
    assert name == "utf-8" and "ação do município" in text


@pytest.mark.parametrize("label", sorted(LABELS))
def test_every_label_can_be_decoded(label):
    text, name = decode(b"ola", f"text/html; charset={label}")
    assert name == LABELS[label]
    assert text == "ola" or name in ("utf-16le", "utf-16be", "replacement")


@settings(deadline=None)
@given(
    st.binary(max_size=3000),
    st.sampled_from(["", "text/html; charset=gbk", "x; charset=utf-16be", "charset=iso-2022-jp"]),
)
def test_any_bytes_give_a_text_that_can_be_stored(body, content_type):
    text, name = decode(body, content_type, "br")
    assert name in LABELS
    text.encode("utf-8")
