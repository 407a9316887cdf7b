"""Office documents: what other programs wrote into them, and what no archive can do to us."""

import io
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tarrafa.model import Link, Page, RobotsMeta
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents import zip_xml
from tarrafa.parse.documents.document import UnreadableDocument
from tarrafa.parse.page import PARSER, parse
from tests.parse.test_page import assert_bounded

DOCUMENTS = Path(__file__).parent / "samples"
URL = "http://h.test/dir/documento"
OOXML = "application/vnd.openxmlformats-officedocument"
ODF = "application/vnd.oasis.opendocument"
TYPES = {
    "docx": f"{OOXML}.wordprocessingml.document",
    "xlsx": f"{OOXML}.spreadsheetml.sheet",
    "pptx": f"{OOXML}.presentationml.presentation",
    "odt": f"{ODF}.text",
    "ods": f"{ODF}.spreadsheet",
    "odp": f"{ODF}.presentation",
    "rtf": "application/rtf",
}
NAMES = sorted(path.name for path in DOCUMENTS.iterdir() if path.suffix[1:] in TYPES)


def document(name: str) -> bytes:
    return (DOCUMENTS / name).read_bytes()


def read(body: bytes, kind: str = "docx", **more: Any) -> Page:
    return parse(body, URL, TYPES.get(kind, kind), **more)


def fixture(name: str) -> Page:
    return read(document(name), name.rpartition(".")[2])


def packed(**members: str | bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def relations(*targets: tuple[str, str, str]) -> str:
    """Of an id, a kind and a target each; a target with a colon is outside."""
    one = '<Relationship Id="{}" Type="http://x/{}" Target="{}" TargetMode="{}"/>'.format
    all_ = (one(id_, kind, target, "External" if ":" in target else "Internal") for id_, kind, target in targets)
    return f"<Relationships>{''.join(all_)}</Relationships>"


TOP = {"[Content_Types].xml": "<Types/>", "_rels/.rels": relations(("r1", "officeDocument", "word/document.xml"))}


def docx(main: str | bytes, **more: str | bytes) -> bytes:
    return packed(**TOP, **{"word/document.xml": main}, **more)


def word(body: str) -> str:
    """The text of a Word document with this body."""
    return read(docx(f"<w:document><w:body>{body}</w:body></w:document>")).text


def odt(body: str, **more: str) -> bytes:
    return packed(mimetype=TYPES["odt"], **{"content.xml": f"<office:text>{body}</office:text>"}, **more)


REPORT = [
    "A tarrafa e o litoral",
    "Os pescadores lançam a rede ao amanhecer, quando a maré começa a subir e o coração da vila ainda dorme.",
    "A associação publica seus números em página de relatórios e no documento vizinho. Três espécies dominam.",
    "Espécies e ações",
    "Tainha",
    "120 kg",
    "Pescada-amarela",
    "85 kg",
    "Fim do relatório,",
    "à vossa disposição.",
]
NOTE = "Nota: os dados são preliminares."


def test_a_letter_of_libreoffice_as_odt_is_understood():
    page = read(document("relatorio.odt"), "odt", x_robots_tag="noindex")
    assert page.text.split("\n") == [*REPORT[:2], NOTE, *REPORT[2:]]
    assert (page.title, page.language) == ("Relatório da pesca artesanal", "pt")
    assert page.headings == ("A tarrafa e o litoral", "Espécies e ações")
    assert page.links == (
        Link("https://pesca.example/relat%C3%B3rios?ano=2024", "página de relatórios"),
        Link("http://h.test/vizinho.odt", "documento vizinho"),
    )
    assert (page.url, page.robots, page.parser) == (URL, RobotsMeta(noindex=True), PARSER)
    assert len(page.content_id) == 32 and page.simhash and page.charset == ""


def test_the_same_letter_as_docx_says_the_same():
    page, other = fixture("relatorio.docx"), fixture("relatorio.odt")
    assert page.text.split("\n") == [*REPORT, NOTE]
    assert (page.title, page.headings, page.links) == (other.title, other.headings, other.links)


def test_the_same_letter_as_rtf_says_nearly_the_same():
    page = fixture("relatorio.rtf")
    assert page.title == "Relatório da pesca artesanal"
    assert page.headings == ("A tarrafa e o litoral", "Espécies e ações")
    assert page.links == (Link("https://pesca.example/relat%C3%B3rios?ano=2024", "página de relatórios"),)
    assert REPORT[1] in page.text and NOTE in page.text and "Tainha 120 kg" in page.text
    assert "Comentário interno" not in page.text


def test_a_letter_of_python_docx_is_understood():
    page = fixture("ata.docx")
    assert page.text.split("\n") == [
        "Ata da assembleia geral",
        "Abertura",
        "Às nove horas, o presidente declarou aberta a sessão; a votação começou às dez.",
        "Leia a ata completa ou o estatuto.",
        "Texto final",
        "Conselheiro",
        "Votos",
        "João Conceição",
        "42",
        "Encerramento",
        "Nada mais havendo, encerrou-se. Amém.",
    ]
    assert page.title == "Ata da assembleia"
    assert page.headings == ("Ata da assembleia geral", "Abertura", "Encerramento")
    assert page.links == (
        Link("https://assoc.example/atas/2024", "ata completa"),
        Link("http://h.test/estatuto.pdf", "estatuto"),
    )


@pytest.mark.parametrize(("name", "formula"), [("orcamento.xlsx", ""), ("orcamento.ods", " fórmula")])
def test_a_workbook_is_its_rows_without_hidden_sheets(name, formula):
    page = fixture(name)
    assert page.text.split("\n") == [
        "Educação",
        "Escola Alunos Verba (R$)",
        "São José 320 150000.5",
        "Santa Bárbara 210 a definir",
        f"Portal{formula}",
        "Saúde",
        "Posto Médicos",
        "Vila Esperança 4",
    ]
    assert (page.title, page.headings) == ("Orçamento municipal", ("Educação", "Saúde"))
    assert {link.url for link in page.links} == {
        "https://formula.example/a%C3%A7%C3%A3o",
        "https://orcamento.example/escolas",
    }


@pytest.mark.parametrize("name", ["curso.pptx", "curso.odp"])
def test_slides_come_in_the_order_of_the_show_without_the_speakers_notes(name):
    page = fixture(name)
    assert page.text.split("\n") == [
        "Senhas", "Não repita senhas", "Cartilha de segurança", "Navegação segura", "Curso de introdução",
    ]  # fmt: skip
    assert page.headings == ("Senhas", "Navegação segura")
    assert page.title == "Senhas"  # for "PowerPoint Presentation" is none
    assert page.links == (Link("https://cartilha.example/senhas", "Cartilha de segurança"),)


@pytest.mark.parametrize("content_type", ["", "application/octet-stream", "application/msword"])
@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_known_by_its_bytes_where_the_type_says_too_little(name, content_type):
    assert read(document(name), content_type).text == fixture(name).text


def test_a_workbook_sent_as_a_letter_is_read_as_a_workbook():
    assert read(document("orcamento.xlsx"), "docx").headings == ("Educação", "Saúde")
    assert read(document("orcamento.ods"), "docx").headings == ("Educação", "Saúde")


@pytest.mark.parametrize(
    "body",
    [packed(**{"META-INF/MANIFEST.MF": "x"}), packed(mimetype="application/epub+zip", **{"content.xml": "<a/>"}),
     b"PK\x03\x04", b"PK\x03\x04" + b"x" * 5_000],
    ids=["jar", "epub", "cut", "rubbish"],
)  # fmt: skip
@pytest.mark.parametrize("content_type", ["", "application/octet-stream"])
def test_an_archive_that_is_no_office_document_says_nothing(body, content_type):
    assert parse(body, URL, content_type).text in ("", body.decode("latin-1"))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<w:p><w:r><w:t>a</w:t></w:r><w:r><w:t>b</w:t></w:r></w:p>", "ab"),
        ("<w:p><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r></w:p>", "a b\nc"),
        ("<w:p><w:r><w:t>a\n b</w:t></w:r></w:p><w:p/><w:p><w:r><w:t>c</w:t></w:r></w:p>", "a b\nc"),
        ("<w:p>fora<w:r>fora<w:t>a</w:t></w:r></w:p>", "a"),
        ("<w:p><w:ins><w:r><w:t>a</w:t></w:r></w:ins><w:del><w:r><w:delText>b</w:delText></w:r></w:del></w:p>", "a"),
        ("<w:p><w:moveFrom><w:r><w:t>a</w:t></w:r></w:moveFrom><w:moveTo><w:t>a</w:t></w:moveTo></w:p>", "a"),
        ("<w:p><mc:Choice><w:t>a</w:t></mc:Choice><mc:Fallback><w:t>a</w:t></mc:Fallback></w:p>", "a"),
        ("<w:p><w:t>a </w:t><w:txbxContent><w:p><w:t>c</w:t></w:p></w:txbxContent><w:t>b</w:t></w:p>", "c\na b"),
        ("<w:p><w:fldChar w:fldCharType='begin'/><w:instrText>PAGE</w:instrText><w:fldChar w:fldCharType='separate'/>"
         "<w:t>3</w:t><w:fldChar w:fldCharType='end'/></w:p>", "3"),
        ("<w:p><m:oMath><m:r><m:t>x=1</m:t></m:r></m:oMath></w:p>", "x=1"),
        ("<w:p><w:t>1&lt;2 &amp; &#233;</w:t><w:t><![CDATA[<b>]]></w:t></w:p>", "1<2 & é<b>"),
    ],
)  # fmt: skip
def test_the_text_of_a_letter_is_what_a_reader_reads(body, text):
    assert word(body) == text


@pytest.mark.parametrize(
    ("field", "links"),
    [
        ('HYPERLINK "http://x.test/a" \\o "dica"', (Link("http://x.test/a", "aqui"),)),
        ("hyperlink http://x.test/a", (Link("http://x.test/a", "aqui"),)),
        ('HYPERLINK "b.html"', (Link("http://h.test/dir/b.html", "aqui"),)),
        ('HYPERLINK \\l "marca"', ()), ('HYPERLINK "mailto:a@b.test"', ()), ("PAGE", ()), ("", ()),
    ],
)  # fmt: skip
def test_fields_lead_where_they_say(field, links):
    simple = f"<w:p><w:fldSimple w:instr='{field}'><w:t>aqui</w:t></w:fldSimple></w:p>"
    step = "<w:fldChar w:fldCharType='{}'/>".format
    halves = f"<w:instrText>{field[:14]}</w:instrText><w:instrText>{field[14:]}</w:instrText>"
    split = f"<w:p>{step('begin')}{halves}{step('separate')}<w:t>aqui</w:t>{step('end')}<w:t> fora</w:t></w:p>"
    assert read(docx(f"<d>{simple}</d>")).links == links
    assert read(docx(f"<d>{split}</d>")).links == links


def test_a_heading_is_one_by_the_name_of_its_style_in_any_language():
    styles = (
        '<w:styles><w:style w:styleId="Ttulo1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="T4"><w:name w:val="heading 4"/></w:style>'
        '<w:style w:styleId="X"><w:name w:val="Capítulo"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>'
    )
    paragraph = '<w:p><w:pPr><w:pStyle w:val="{0}"/></w:pPr><w:r><w:t>Sob {0}</w:t></w:r></w:p>'.format
    body = f"<w:document>{''.join(map(paragraph, ['Ttulo1', 'T4', 'X', 'Normal']))}</w:document>"
    rels = relations(("s", "styles", "styles.xml"))
    page = read(docx(body, **{"word/_rels/document.xml.rels": rels, "word/styles.xml": styles}))
    assert page.headings == ("Sob Ttulo1", "Sob X")
    assert page.title == "Sob Ttulo1"


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("http://x.test/a", "http://x.test/a"), ("../b.odt", "http://h.test/dir/b.odt"), ("/c", "http://h.test/c"),
        ("../../d", "http://h.test/d"), ("//x.test/e", "http://x.test/e"),
    ],
)  # fmt: skip
def test_odf_references_are_seen_from_within_the_package(href, url):
    assert read(odt(f'<text:p><text:a xlink:href="{href}">x</text:a></text:p>'), "odt").links == (Link(url, "x"),)


@pytest.mark.parametrize("href", ["#marca", "Pictures/1.png", "", "mailto:a@b.test", "file:///etc/passwd"])
def test_odf_references_into_the_package_lead_nowhere(href):
    assert read(odt(f'<text:p><text:a xlink:href="{href}">x</text:a></text:p>'), "odt").links == ()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (r"{\rtf1\ansi\ansicpg1252 a\'e7\'e3o\par b}", "ação\nb"),
        (r"{\rtf1\ansi\uc1 a\u231?\u227?o \u8364?}", "ação €"),
        (r"{\rtf1\ansi{\uc2\u231 ??}\u227?o}", "ção"),
        (r"{\rtf1\ansi \u-10179?\u-8704?}", "😀"),
        (r"{\rtf1\ansicpg1251 \'cc\'e8\'f0}", "Мир"),
        (r"{\rtf1{\fonttbl{\f0 Arial;}}{\*\generator x;}{\info{\author y}}{\pict\bin4 }}\}}a}", "a"),
        (r"{\rtf1 a\{b\}\\c\~d\_e\tab f\emdash g}", "a{b}\\c d-e f—g"),
        ("{\\rtf1 a\r\nb\\\nc}", "ab\nc"),
        (r"{\rtf1 a{\deleted b}{\v0 c}", "ac"),
        (r"{\rtf1 }}}}a", "a"),
    ],
)
def test_the_text_of_rtf_is_what_a_reader_reads(body, text):
    assert read(body.encode(), "rtf").text == text


@pytest.mark.parametrize("make", [lambda: zipfile.ZIP64_LIMIT, lambda: 0], ids=["zip", "zip64"])
@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\n"])
def test_appnote_archives_of_all_kinds_are_opened(make, before, monkeypatch):
    class Pipe(io.BytesIO):
        """Nobody can go back in it, so sizes stand behind the data."""

        def seekable(self) -> bool:
            return False

    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", make())
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (TOP | {"Word\\Document.xml": "<w:p><w:t>aberto</w:t></w:p>"}).items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(content.encode())
        archive.comment = b"um comentario"
    assert read(before + pipe.getvalue()).text == "aberto"


def test_utf_16_is_read_and_no_other_encoding_is_looked_for():
    text = "<w:p><w:t>ação</w:t></w:p>"
    assert read(docx(f'<?xml version="1.0" encoding="UTF-16"?>{text}'.encode("utf-16"))).text == "ação"
    with pytest.raises(UnreadableDocument, match="neither UTF-8 nor UTF-16"):
        read(docx(f'<?xml version="1.0" encoding="unicode_escape"?>{text}'.encode()))


# --- What is refused -------------------------------------------------------------------------------------------------

XXE = (
    '<!DOCTYPE w [<!ENTITY file SYSTEM "file:///etc/passwd"><!ENTITY lol "ha"><!ENTITY lols "&lol;&lol;">]>'
    "<w:p><w:t>&file;&lols;</w:t></w:p>"
)
LOCKED = "<manifest:manifest><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></manifest:manifest>"


def with_flag(body: bytes, flag: int) -> bytes:
    """The archive with a flag set in each entry of its directory."""
    changed = bytearray(body)
    at = body.find(b"PK\x01\x02")
    while at >= 0:
        struct.pack_into("<H", changed, at + 8, flag)
        at = body.find(b"PK\x01\x02", at + 1)
    return bytes(changed)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "damaged: no ZIP archive, or its end is missing"),
        (b"\x00" * 100_000, "damaged: no ZIP archive, or its end is missing"),
        (b"<html>404</html>", "damaged: no ZIP archive, or its end is missing"),
        (document("ata.docx")[:-30], "damaged: no ZIP archive, or its end is missing"),
        (packed(**{"[Content_Types].xml": "<Types/>"}), "damaged: no main part"),
        (packed(**{"a.docx": docx("<d/>")}), "damaged: no main part"),
        (docx(XXE), "damaged: a DTD, which no office document may have"),
        (docx("<w:p>"), "damaged: word/document.xml: no element found: line 1, column 5"),
        (docx(docx("<d/>")), "damaged: word/document.xml: not well-formed"),
        (docx("<w:t>\x00</w:t>"), "damaged: word/document.xml: not well-formed"),
        (with_flag(document("ata.docx"), 1), "encrypted"),
        (odt("", **{"META-INF/manifest.xml": LOCKED}), "encrypted"),
        (b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le"), "encrypted"),
        (b"\xd0\xcf\x11\xe0" + b"\x00" * 600, "damaged: of Office 97"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(body, reason):
    with pytest.raises(UnreadableDocument) as refusal:
        read(body)
    assert str(refusal.value).startswith(reason) and len(str(refusal.value)) <= 120


def test_rtf_that_is_none_is_refused():
    with pytest.raises(UnreadableDocument, match="damaged: no RTF"):
        read(b"<p>", "rtf")


def test_a_part_that_can_be_missed_may_be_broken():
    members = {"word/_rels/document.xml.rels": relations(("s", "styles", "styles.xml")), "word/styles.xml": XXE}
    assert read(docx("<w:p><w:t>a</w:t></w:p>", **members)).text == "a"


def bomb(unpacked_bytes: int) -> bytes:
    """A letter whose main part unpacks to this: one packed block of spaces, repeated (zlib lets them be strung)."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(b"<w:p>") + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    data = head + block * (unpacked_bytes >> 20) + packer.compress(b"</w:p>") + packer.flush()
    body = docx("MARK")
    whole, end = bytearray(body), body.rfind(b"PK\x05\x06")
    local = body.find(b"PK\x03\x04", body.find(b"_rels/.rels") + 1)
    begin = local + 30 + len("word/document.xml")
    entry = body.rfind(b"PK\x01\x02")
    directory = body.find(b"PK\x01\x02")
    grown = len(data) - (directory - begin)
    struct.pack_into("<I", whole, entry + 20, len(data))
    struct.pack_into("<I", whole, end + 16, directory + grown)
    return bytes(whole[:begin]) + data + bytes(whole[directory:])


def test_a_bomb_of_10_gigabytes_costs_what_the_limits_allow():
    body = bomb(10 << 30)
    assert len(body) < 16 << 20
    tracemalloc.start()
    with pytest.raises(UnreadableDocument, match="too much"):
        read(body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize(
    ("limit", "value", "body"),
    [
        ("BODY_BYTES_MAX", 100, docx("<w:p><w:t>a</w:t></w:p>")),
        ("PACKAGE_MEMBERS_MAX", 3, docx("<w:p><w:t>a</w:t></w:p>", a="", b="", c="")),
        ("PACKAGE_MEMBER_BYTES_MAX", 99_999, docx("<d>" + " " * 100_000 + "<w:p><w:t>a</w:t></w:p></d>")),
        ("PACKAGE_BYTES_MAX", 99_999, docx("<d>" + " " * 100_000 + "<w:p><w:t>a</w:t></w:p></d>")),
        ("XML_DEPTH_MAX", 99, docx("<a>" * 100 + "</a>" * 100)),
        ("XML_ELEMENTS_MAX", 999, docx("<d>" + "<a/>" * 1_000 + "</d>")),
        ("XML_NAMES_MAX", 999, docx("<d>" + "".join(f"<a{number}/>" for number in range(9_999)) + "</d>")),
        ("XML_TOKEN_BYTES_MAX", 99_999, docx('<d x="' + "y" * 200_000 + '"/>')),
    ],
)
def test_a_letter_that_passes_a_limit_before_its_first_word_is_refused(limit, value, body, monkeypatch):
    assert read(body).text in ("", "a")
    monkeypatch.setattr(limits, limit, value)
    with pytest.raises(UnreadableDocument, match="too much"):
        read(body)


def test_a_letter_that_passes_a_limit_later_says_what_it_said_until_there(monkeypatch):
    body = docx("<d>" + "".join(f"<w:p><w:t>{number}</w:t></w:p>" for number in range(1_000)) + "</d>")
    monkeypatch.setattr(limits, "XML_ELEMENTS_MAX", 101)
    assert read(body).text.split("\n") == [str(number) for number in range(49)]


def test_one_paragraph_without_end_is_text_up_to_the_limit():
    page = read(docx("<w:p>" + "<w:r><w:t>palavra muito longa </w:t></w:r>" * 55_000 + "</w:p>"))
    assert_bounded(page)
    assert len(page.text) > 490_000


@pytest.mark.parametrize(
    "main",
    [
        "<w:hyperlink>" * 400 + "<w:p><w:t>x</w:t></w:p>" * 20_000 + "</w:hyperlink>" * 400,
        "<d>" + "<w:fldChar w:fldCharType='begin'/><w:fldChar w:fldCharType='separate'/>" * 20_000 + "</d>",
        "<d>" + "<w:fldChar w:fldCharType='end'/><w:br/>" * 20_000 + "</d>",
        "<w:txbxContent>" * 400 + "<w:t>x</w:t>" + "</w:txbxContent>" * 400,
        "<d>" + "".join(f"<w:fldSimple w:instr='HYPERLINK x{n}'>{n}</w:fldSimple>" for n in range(20_000)) + "</d>",
    ],
)
def test_hostile_markup_gives_a_bounded_page(main):
    assert_bounded(read(docx(main)))


def test_strings_that_are_shared_a_thousand_times_are_not_a_thousand_times_as_long():
    rels = relations(("r1", "worksheet", "s.xml"), ("r2", "sharedStrings", "t.xml"))
    body = packed(
        **TOP,
        **{
            "word/document.xml": '<workbook><sheets><sheet name="A" r:id="r1"/></sheets></workbook>',
            "word/_rels/document.xml.rels": rels,
            "word/t.xml": f"<sst><si><t>{'palavra ' * 5_000}</t></si></sst>",
            "word/s.xml": "<worksheet><row>" + "<c t='s'><v>0</v></c>" * 9_000 + "</row></worksheet>",
        },
    )
    page = read(body, "xlsx")
    assert_bounded(page)
    assert len(page.text) > 490_000


@pytest.mark.parametrize("cell", ["-1", "999999999999999999999", "x", "1", "", "²"])
def test_a_cell_that_points_nowhere_is_empty(cell):
    rels = relations(("r1", "worksheet", "s.xml"))
    parts = {
        "word/document.xml": '<workbook><sheet name="A" r:id="r1"/></workbook>',
        "word/_rels/document.xml.rels": rels,
        "word/s.xml": f'<row><c t="s"><v>{cell}</v></c><c><v>7</v></c></row>',
    }
    assert read(packed(**TOP, **parts), "xlsx").text == "A\n7"


def test_relations_cannot_leave_the_package():
    rels = relations(("r1", "officeDocument", "../../../../etc/passwd"))
    with pytest.raises(UnreadableDocument, match="no main part"):
        read(packed(**{"[Content_Types].xml": "<Types/>", "_rels/.rels": rels}))


def test_a_slide_that_refers_to_itself_is_read_as_often_as_the_show_says(monkeypatch):
    monkeypatch.setattr(limits, "PACKAGE_PARTS_MAX", 5)
    rels = relations(("r1", "slide", "s.xml"))
    parts = {
        "word/document.xml": "<p:presentation>" + '<p:sldId id="1" r:id="r1"/>' * 99 + "</p:presentation>",
        "word/_rels/document.xml.rels": rels,
        "word/s.xml": "<a:p><a:t>x</a:t></a:p>",
    }
    assert read(packed(**TOP, **parts), "pptx").text == "x\nx\nx\nx\nx"


BODIES = [(name.rpartition(".")[2], document(name)) for name in NAMES]
PIECES = [b"PK\x01\x02", b"PK\x05\x06", b"\0" * 8, b"\xff" * 8, b"<", b"{", b"}", b"\\u9", b"\\bin99", b"&x;", b"\\'"]


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    kind, original = draw(st.sampled_from(BODIES))
    body = bytearray(original)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["byte", "piece", "cut", "drop", "end"])):
            case "byte":
                body[at : at + 1] = bytes([draw(st.integers(0, 255))])
            case "piece":
                body[at:at] = draw(st.sampled_from(PIECES))
            case "cut" if draw(st.booleans()):
                del body[at:]
            case "drop":
                del body[at : at + draw(st.integers(1, 200))]
            case "end" if len(body) > 400:  # where an archive has its directory
                body[-1 - at % 400] = draw(st.integers(0, 255))
    return kind, bytes(body)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_a_damaged_document_gives_a_page_or_is_refused(found):
    kind, body = found
    try:
        assert_bounded(read(body, kind))
    except UnreadableDocument as refusal:
        assert str(refusal)


XML_PIECES = [
    "<w:p>",
    "</w:p>",
    "<w:t>",
    "</w:t>",
    "<w:hyperlink r:id='r1'>",
    "</w:hyperlink>",
    "<w:fldChar w:fldCharType='begin'/>",
    "<w:fldChar w:fldCharType='separate'/>",
    "<w:fldChar w:fldCharType='end'/>",
    "<w:instrText>HYPERLINK x",
    "</w:instrText>",
    "<w:txbxContent>",
    "</w:txbxContent>",
    "<w:del>",
    "</w:del>",
    "texto ",
    "&#x1F600;",
    "&#xD800;",
    "\ud800",
    "<a:hlinkClick r:id='r1'/>",
    "<w:r>",
    "</w:r>",
    "<p:ph type='title'/>",
    "<text:a xlink:href='../x'>",
    "</text:a>",
    "<text:note>",
    "</text:note>",
    "<table:table table:name='T'>",
    "</table:table>",
    "<office:spreadsheet>",
    "<c t='s'>",
    "<v>0</v>",
    "</c>",
    "<?x?>",
    "<!-- -->",
    "<!DOCTYPE x>",
    "]]>",
]


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.sampled_from(XML_PIECES), max_size=30), st.sampled_from(["docx", "xlsx", "odt"]))
def test_any_xml_gives_a_page_or_is_refused(pieces, kind):
    main = f"<d>{''.join(pieces)}</d>".encode("utf-8", "surrogatepass")
    rels = relations(("r1", "worksheet" if kind == "xlsx" else "hyperlink", "s.xml" if kind == "xlsx" else "http://x/"))
    parts: dict[str, str | bytes] = {"content.xml": main}
    if kind != "odt":
        parts = {**TOP, "word/document.xml": main, "word/_rels/document.xml.rels": rels, "word/s.xml": main}
    body = packed(**parts)
    try:
        assert_bounded(read(body, kind))
    except UnreadableDocument as refusal:
        assert str(refusal)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_an_archive_or_are_refused(rubbish):
    for body in (rubbish, b"PK\x03\x04" + rubbish, rubbish + document("orcamento.xlsx")[-900:]):
        try:
            zip_xml.ZipXmlPackage(body)
        except UnreadableDocument as refusal:
            assert str(refusal.reason) == "damaged"
