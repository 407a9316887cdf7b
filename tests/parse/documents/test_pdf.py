"""PDF: what stands on the pages, and what no page can do to us."""

import json
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarrafa.model import Link, Page, RobotsMeta
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents import pdf
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.page import PARSER, parse
from tests.parse.test_page import assert_bounded

DOCUMENTS = Path(__file__).parent / "samples"
URL = "http://h.test/dir/boletim.pdf"
PDF = "application/pdf"

FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
HELLO = "BT /F 12 Tf 72 700 Td (Olá mundo) Tj ET ".encode("cp1252")


def document(name: str) -> bytes:
    return (DOCUMENTS / name).read_bytes()


def read(body: bytes, content_type: str = PDF, **more: Any) -> Page:
    return parse(body, URL, content_type, **more)


def made(*objects: bytes) -> bytes:
    """A PDF of these objects, numbered from 1, of which the first is the catalogue."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, len(out))
    return bytes(out) + b"xref\n0 %d\n0000000000 65535 f \n%b%b" % (size, table, end)


def stream(content: bytes, more: bytes = b"") -> bytes:
    packed = zlib.compress(content, 9)
    return b"<</Length %d/Filter/FlateDecode%b>>stream\n%b\nendstream" % (len(packed), more, packed)


def one_page(content: bytes, more: bytes = b"", box: bytes = b"0 0 600 800", *others: bytes) -> bytes:
    page = (
        b"<</Type/Page/Parent 2 0 R/MediaBox[%b]/Contents 5 0 R%b/Resources<</Font<</F 4 0 R>>/XObject<</X 6 0 R>>>>>>"
    )
    pages = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
    return made(CATALOG, pages, page % (box, more), FONT, stream(content), *others)


def lines(*texts: str) -> bytes:
    shown = b"".join(b"(%b) Tj 0 -14 Td " % text.encode("cp1252") for text in texts)
    return b"BT /F 12 Tf 72 700 Td %b ET" % shown


def test_a_pdf_of_reportlab_is_understood():
    page = read(document("mare.pdf"), x_robots_tag="noarchive")
    assert (page.url, page.title, page.language, page.parser) == (URL, "Boletim da maré", "pt", PARSER)
    assert page.text.split("\n") == [
        "Previsão da maré para o verão",
        "A água sobe às três e a pesca começa; atenção ao vento.",
        "Veja a tábua completa",
        "Dados em http://dados.example/mare.csv e www.marinha.example",
        "Segunda página: conclusões do capitão.",
    ]
    assert page.headings == ("Previsão", "Conclusão")
    assert page.links == (
        Link("https://mare.example/tabua?porto=S%C3%A3o%20Lu%C3%ADs", "tábua completa"),
        Link("http://dados.example/mare.csv"),
        Link("http://www.marinha.example/"),
        Link("http://h.test/dir/anexo.pdf", "Segunda página: conclu"),
    )
    assert page.robots == RobotsMeta(noarchive=True)
    assert len(page.content_id) == 32 and page.simhash and page.charset == ""


def test_a_pdf_of_libreoffice_is_understood():
    page = read(document("aviso.pdf"))
    assert page.title == "Ação da maré" and page.headings == ("Ação da maré",)
    assert page.text.endswith("o coração da cidade e o mar se encontram na doca antiga.")
    assert page.links == (Link("https://mare.example/a%C3%A7%C3%A3o", "doca antiga"),)
    assert page.language == "pt"  # whatever its /Lang claims


def test_what_only_its_owner_may_change_anybody_may_read():
    assert read(document("dono.pdf")).text == read(document("mare.pdf")).text


@pytest.mark.parametrize("content_type", ["", "application/octet-stream", "application/x-pdf", "Application/PDF; x=y"])
def test_a_pdf_is_known_by_its_type_or_by_its_first_bytes(content_type):
    assert read(document("mare.pdf"), content_type).title == "Boletim da maré"


def test_a_server_that_says_otherwise_is_believed():
    assert read(document("mare.pdf"), "image/png").text == ""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (document("senha.pdf"), "encrypted"),
        (b"", "damaged: no PDF"),
        (b"<html><title>404</title>", "damaged: no PDF"),
        (b"%PDF-1.7" + b"\0" * 5_000, "damaged: no table of objects, no pages"),
        (document("mare.pdf")[:400], "damaged: no table of objects, no pages"),
        (made(CATALOG, b"<</Type/Pages/Kids[]/Count 0>>"), "damaged: none of its pages can be read"),
    ],
    ids=["password", "empty", "html", "zeros", "cut", "no pages"],
)
def test_what_cannot_be_read_is_refused_with_a_reason(body, reason):
    with pytest.raises(UnreadableDocument) as refusal:
        read(body)
    assert str(refusal.value) == reason


def test_a_document_that_is_too_large_is_refused_unread(monkeypatch):
    monkeypatch.setattr(limits, "BODY_BYTES_MAX", 1_000)
    with pytest.raises(UnreadableDocument, match="too much"):
        read(document("mare.pdf"))


def test_words_that_the_end_of_a_line_cut_are_whole():
    page = read(one_page(lines("A administra-", "ção do porto é pública.", "Fim.")))
    assert page.text.replace("\n", " ") == "A administração do porto é pública. Fim."


def test_lenient_accents_that_tex_set_apart_come_back_to_their_letters():
    shown = b"(A fun\270c\230ao n\230ao \264e `a toa, nem \210e, nem \250u.) Tj"
    assert read(one_page(b"BT /F 12 Tf 72 700 Td " + shown + b" ET")).text == "A função não é à toa, nem ê, nem ü."


@pytest.mark.parametrize("text", ["use `a` e `b`", "5´ 30´´", "a ` e"])
def test_signs_that_are_no_accents_stay(text):
    assert read(one_page(lines(text))).text == text


def test_one_page_too_many_is_not_read(monkeypatch):
    monkeypatch.setattr(limits, "PDF_PAGES_MAX", 1)
    assert "Segunda" not in read(document("mare.pdf")).text


def test_a_broken_page_leaves_the_others():
    pages = b"<</Type/Pages/Kids[9 0 R 3 0 R]/Count 2>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 5 0 R/Resources<</Font<</F 4 0 R>>>>>>"
    assert read(made(CATALOG, pages, page, FONT, stream(HELLO))).text == "Olá mundo"


@pytest.mark.parametrize(
    ("title", "expected"),
    [("Microsoft Word - ata.doc", "ata.doc"), ("untitled", "Primeira linha"), ("", "Primeira linha"), (" Um  ", "Um")],
)
def test_the_title_is_what_the_document_calls_itself_or_its_first_line(title, expected):
    body = one_page(lines("Primeira linha", "Segunda"), b"", b"0 0 600 800", b"<</Title(%b)>>" % title.encode())
    assert read(body.replace(b"/Root", b"/Info 6 0 R/Root")).title == expected


def test_every_handle_is_closed_whatever_happens(monkeypatch):
    library, calls = pdf._library(), Counter[str]()

    class Recorder:
        def __getattr__(self, name: str) -> Any:
            function = getattr(library, name)
            if "Load" not in name and "Close" not in name:
                return function

            def recorded(*arguments: Any) -> Any:
                result = function(*arguments)
                if result or "Close" in name:
                    calls[name] += 1
                return result

            return recorded

    monkeypatch.setattr(pdf, "_library", Recorder)
    for objects_max, room in ((500_000, 100), (500_000, 20), (0, 100)):
        monkeypatch.setattr(limits, "PDF_OBJECTS_MAX", objects_max)
        try:
            limits.read_document("pdf", document("mare.pdf"), room)
        except UnreadableDocument as refusal:
            assert objects_max == 0, refusal
    assert calls["FPDF_LoadMemDocument64"] == calls["FPDF_CloseDocument"] == 3
    assert calls["FPDF_LoadPage"] == calls["FPDF_ClosePage"] > 3
    assert calls["FPDFText_LoadPage"] == calls["FPDFText_ClosePage"] > 1
    assert calls["FPDFLink_LoadWebLinks"] == calls["FPDFLink_CloseWebLinks"] > 1


def test_a_crawl_without_pdf_never_loads_pdfium():
    code = (
        "import sys; from tarrafa.parse.page import parse; parse(b'<p>x', 'http://h.test/', 'text/html');"
        "assert not [name for name in sys.modules if 'pdfium' in name or name.endswith(('ooxml', 'parse.pdf'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# What PDFium makes of such bytes is its own affair; it runs in a child, and the child has limits.
HOSTILE: dict[str, Callable[[], bytes]] = {
    "100,000 pages": lambda: made(
        CATALOG,
        b"<</Type/Pages/Count 100000/Kids[" + b"3 0 R " * 100_000 + b"]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 5 0 R>>",
        FONT,
        stream(HELLO),
    ),
    "a count that lies": lambda: made(
        CATALOG, b"<</Type/Pages/Count 2000000000/Kids[3 0 R]>>", b"<</Type/Page/Parent 2 0 R>>"
    ),
    "pages in a loop": lambda: made(CATALOG, b"<</Type/Pages/Count 5/Kids[2 0 R 2 0 R]/Parent 2 0 R>>"),
    "pages in a longer loop": lambda: made(
        CATALOG,
        b"<</Type/Pages/Count 9/Kids[3 0 R 3 0 R]/Parent 3 0 R>>",
        b"<</Type/Pages/Count 9/Kids[2 0 R 2 0 R]/Parent 2 0 R>>",
    ),
    "a tree that doubles": lambda: made(
        CATALOG,
        *[b"<</Type/Pages/Count 1000000/Kids[%d 0 R %d 0 R]>>" % (number, number) for number in range(3, 42)],
        b"<</Type/Page/MediaBox[0 0 9 9]>>",
    ),
    "a deep tree": lambda: made(
        CATALOG, *[b"<</Type/Pages/Count 1/Kids[%d 0 R]>>" % number for number in range(3, 5_000)]
    ),
    "a huge page": lambda: one_page(HELLO, b"", b"-1e38 -1e38 1e38 1e38"),
    "arrays in arrays": lambda: one_page(b"[" * 100_000),
    "dictionaries in dictionaries": lambda: made(CATALOG, b"<</X" * 50_000 + b">>" * 50_000),
    "a form in itself": lambda: one_page(
        b"/X Do " + HELLO,
        b"",
        b"0 0 9 9",
        stream(b"/X Do " + HELLO, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</X 6 0 R>>>>"),
    ),
    "an outline in a loop": lambda: made(
        b"<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        b"<</First 5 0 R>>",
        b"<</Title(Um)/Next 6 0 R/First 5 0 R>>",
        b"<</Title(Dois)/Next 5 0 R/First 4 0 R>>",
    ),
    "20,000 links": lambda: one_page(
        HELLO * 9,
        b"/Annots["
        + b"".join(
            b"<</Subtype/Link/Rect[0 0 600 800]/A<</S/URI/URI(http://x.test/%d)>>>>" % number
            for number in range(20_000)
        )
        + b"]",
    ),
    "much text": lambda: one_page(
        b"BT /F 12 Tf 72 700 Td " + b"(palavra palavra palavra) Tj 0 -14 Td " * 10_000 + b"ET"
    ),
    "a bomb": lambda: one_page(b" " * (16 << 20) + HELLO),
    "states in states": lambda: one_page(b"q " * 200_000 + HELLO),
    "a table that leads to itself": lambda: one_page(HELLO).replace(b"/Root", b"/Prev 9/Root"),
}

CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
import msgspec
from tarrafa.parse.page import parse
from tarrafa.parse.documents.document import UnreadableDocument
for body in msgspec.msgpack.decode(sys.stdin.buffer.read()):
    try:
        answer = msgspec.to_builtins(parse(body, "http://h.test/", "application/pdf"))
    except UnreadableDocument as refusal:
        answer = {"refusal": str(refusal)}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    bodies = msgspec.msgpack.encode([make() for make in HOSTILE.values()])
    child = subprocess.run([sys.executable, "-c", CHILD], input=bodies, capture_output=True)
    found = [json.loads(line) for line in child.stdout.splitlines()]
    assert len(found) == len(HOSTILE), f"it died at {list(HOSTILE)[len(found)]}: {child.stderr.decode()[-500:]}"
    return dict(zip(HOSTILE, found, strict=True))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pdf_gives_a_bounded_page_or_is_refused(name, answers):
    answer = answers[name]
    if "refusal" in answer:
        assert answer["refusal"].startswith(("damaged", "too much"))
    else:
        assert_bounded(msgspec.convert(answer, Page))


def test_a_loop_in_the_outline_is_walked_once(answers):
    assert answers["an outline in a loop"]["headings"] == ["Um", "Dois"]


def test_of_100000_pages_the_first_are_read(answers):
    assert answers["100,000 pages"].get("text", "").count("\n") < limits.PDF_PAGES_MAX


# In 24,000 mutations of these and of 46 other small files PDFium never crashed: these few run in this process.
BODIES = [document(name) for name in ("mare.pdf", "aviso.pdf", "dono.pdf")] + [one_page(HELLO)]
PIECES = [b"/Kids", b"/Count 99999999", b"/Length 0", b"2 0 R", b"<<", b">>", b"[", b"\0", b"9" * 30, b"endobj", b"-1"]


@st.composite
def mutated(draw: st.DrawFn, bodies: list[bytes]) -> bytes:
    body = bytearray(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["byte", "piece", "cut", "drop"])):
            case "byte":
                body[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "piece":
                body[at:at] = draw(st.sampled_from(PIECES))
            case "cut" if draw(st.booleans()):
                del body[at:]
            case "drop":
                del body[at : at + draw(st.integers(1, 200))]
    return bytes(body)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(mutated(BODIES))
def test_a_damaged_pdf_gives_a_page_or_is_refused(body):
    try:
        assert_bounded(read(body))
    except UnreadableDocument as refusal:
        assert str(refusal)
