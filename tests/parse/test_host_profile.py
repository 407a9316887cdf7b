"""Host profile: template, headline and language of a page, learned from the other pages of its host."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tarrafa.model import Page
from tarrafa.parse import host_profile
from tarrafa.parse.fingerprint import compute_fingerprints
from tarrafa.parse.host_profile import HostProfile
from tarrafa.parse.page import parse

NOUNS = (
    "filme", "diretor", "roteiro", "cinema", "livro", "conto", "poema", "bairro", "navio", "rio", "samba", "disco",
    "show", "drama", "autor", "velho", "menino",
)  # fmt: skip
VERBS = (
    "mostra", "conta", "lembra", "esconde", "revela", "descreve", "repete", "abandona", "retoma", "encontra", "perde",
)  # fmt: skip
ENDS = (
    "com muita calma", "sem nenhuma pressa", "desde o começo", "até o fim da noite", "como ninguém esperava",
    "para quem gosta de suspense", "no interior de Minas", "ao longo de três gerações", "em poucas palavras",
)  # fmt: skip
NOTICE = "We use cookies to give you the best experience on our site. By using it you agree to our cookie policy."
MENU = "".join(f"<li><a href=/{word}>{word}</a>" for word in ["Home", "About", "Contact", "Archives", "Categories"])
FOOTER = "<div><p>Powered by Blogger. Theme images by Ana. All rights reserved 2009.</p></div>"


def sentences(count: int, seed: int) -> str:
    rng = random.Random(seed)
    return " ".join(
        f"O {rng.choice(NOUNS)} {rng.choice(VERBS)} a história do {rng.choice(NOUNS)} {rng.choice(ENDS)}."
        for _ in range(count)
    )


def post(number: int, body: str = "", title: str = "", *, notice: str = "", lang: str = "en-us") -> Page:
    body = body or f"<p>{sentences(5, number)}</p><p>{sentences(4, -number - 1)}</p>"
    title = title or f"Meu Blog: {sentences(1, 1000 + number)[:-1]}"
    markup = (
        f"<!DOCTYPE html><html lang={lang}><title>{title}</title><body><ul>{MENU}</ul><article>{notice}{body}</article>"
        f"<ul><li><a href=/older>Older post</a></ul>{FOOTER}"
    )
    return parse(markup.encode(), f"http://blog.test/{number}", "text/html; charset=utf-8")


def lines_of(page: Page, spans: tuple[tuple[int, int], ...]) -> list[str]:
    return [line for start, end in spans for line in page.text[start:end].split("\n")]


def learned(pages: int = 12, **options: str) -> HostProfile:
    profile = HostProfile()
    for number in range(pages):
        profile.describe(post(number, **options))
    return profile


def test_lines_that_repeat_over_the_pages_of_a_host_are_its_template():
    page = learned().describe(post(50))
    template = lines_of(page, page.template_spans)
    assert template[:5] == ["Home", "About", "Contact", "Archives", "Categories"]
    assert template[-1].startswith("Powered by Blogger")
    assert sentences(5, 50) in page.content
    assert not page.link_list_spans, "the menu is template, no list of the page's own"


def test_the_first_pages_of_a_host_are_judged_by_themselves():
    profile = HostProfile()
    pages = [profile.describe(post(number)) for number in range(host_profile.LINE_PAGES_MIN)]
    assert not any(page.template_spans for page in pages[:-1])
    assert lines_of(pages[0], pages[0].link_list_spans) == ["Home", "About", "Contact", "Archives", "Categories"]
    assert pages[-1].template_spans


def test_a_notice_inside_the_article_is_taken_out_of_the_content():
    assert NOTICE in post(50, notice=f"<p>{NOTICE}</p>").content
    page = learned(notice=f"<p>{NOTICE}</p>").describe(post(50, notice=f"<p>{NOTICE}</p>"))
    assert NOTICE not in page.content
    assert NOTICE in lines_of(page, page.template_spans)
    assert page.content.startswith(sentences(5, 50))


def test_content_is_left_as_it_is_where_nothing_else_would_be_left():
    profile = learned(body=f"<p>{NOTICE}</p>")
    page = profile.describe(post(50, body=f"<p>{NOTICE}</p>"))
    assert page.content == NOTICE
    assert NOTICE not in lines_of(page, page.template_spans)


def test_a_list_of_links_in_a_known_template_has_no_content():
    profile = learned()
    links = "".join(f'<li><a href="/{number}">Resenha número {number} da semana</a></li>' for number in range(12))
    page = profile.describe(post(99, f"<ul>{links}</ul>"))
    assert lines_of(page, page.link_list_spans)
    assert page.content == ""


def test_a_line_that_a_series_of_articles_shares_is_not_template():
    shared = "Este texto faz parte da série sobre o cinema italiano dos anos sessenta, publicada aos domingos."
    profile = HostProfile()
    for number in range(40):
        series = f"<p>{shared}</p>" if number % 8 == 0 else ""
        page = profile.describe(post(number, f"{series}<p>{sentences(5, number)}</p>"))
        assert (shared in page.content) == bool(series)


def test_a_post_keeps_the_paragraph_that_the_lists_of_a_small_site_repeat():
    teaser = sentences(2, 7)
    profile = HostProfile()
    for number in range(14):
        body = f"<p>{sentences(4, number)}</p>"
        page = profile.describe(post(number, f"<p>{teaser}</p>{body}" if number % 2 and number < 12 else body))
    page = profile.describe(post(50, f"<p>{teaser}</p><p>{sentences(4, 50)}</p>"))
    assert page.content.startswith(teaser)


def test_short_lines_that_repeat_stay_within_the_content():
    code = "<p>{}</p><p>Exemplo</p><pre>if (x) {{\n  y();\n}}</pre><p>{}</p>"
    profile = HostProfile()
    for number in range(12):
        page = profile.describe(post(number, code.format(sentences(3, number), sentences(3, -1 - number))))
    assert page.content.count("Exemplo\nif (x) {\ny();\n}") == 1
    assert "Exemplo" not in lines_of(page, page.template_spans)


def test_copies_of_an_article_and_repeated_visits_teach_nothing():
    profile = HostProfile()
    for number in range(20):
        profile.describe(post(number))
    article = post(500)
    for number in range(200):
        copy = parse_copy(article, number)
        page = profile.describe(copy)
    assert page.content == article.content
    for _ in range(200):
        page = profile.describe(article)
    assert page.content == article.content


def parse_copy(page: Page, number: int) -> Page:
    return Page(
        **{name: getattr(page, name) for name in page.__struct_fields__} | {"url": f"http://blog.test/p?{number}"}
    )


def test_a_new_design_is_learned():
    profile = learned(300)
    for number in range(1_000, 4_000):
        page = parse(
            f"<title>t{number}</title><p>{sentences(5, number)}</p><div>Novo rodapé desta casa</div>".encode(),
            f"http://blog.test/{number}",
            "text/html; charset=utf-8",
        )
        page = profile.describe(page)
    assert "Novo rodapé desta casa" in lines_of(page, page.template_spans)
    old = profile.describe(post(9_999))
    assert not any("Powered" in line for line in lines_of(old, old.template_spans))


def test_parts_share_no_line():
    profile = learned(notice=f"<p>{NOTICE}</p>")
    for number in range(20, 40):
        page = profile.describe(post(number, notice=f"<p>{NOTICE}</p>"))
        spans = sorted([*page.content_spans, *page.template_spans, *page.link_list_spans])
        assert all(end < start for (_, end), (start, _) in pairwise(spans))


TITLES = [
    ("Meu Blog: {}", "{}"), ("{} - Meu Blog", "{}"), ("{} | Filmes | Meu Blog", "{}"), ("Meu Blog » {}", "{}"),
    ("{} — Portal – Casa", "{}"), ("{} (Casa 1.2 API)", "{}"), ("{}", ""), ("Meu Blog {}", ""),
    ("Meu Blog ({})", ""),
]  # fmt: skip


@pytest.mark.parametrize(("form", "expected"), TITLES)
def test_what_the_titles_of_a_host_share_is_no_headline(form, expected):
    profile = HostProfile()
    for number in range(12):
        profile.describe(post(number, title=form.format(f"Resenha {chr(97 + number)}")))
    page = profile.describe(post(50, title=form.format("Alien")))
    assert page.headline == expected.format("Alien")


def test_an_affix_that_few_titles_share_stays():
    profile = HostProfile()
    for number in range(40):
        form = "Brasil - {}" if number % 8 == 0 else "{}"
        profile.describe(post(number, title=form.format(f"Notas {number}")))
    assert profile.describe(post(50, title="Brasil - História")).headline == ""


def test_a_headline_is_never_empty_and_one_title_repeated_shows_nothing():
    profile = HostProfile()
    for number in range(30):
        assert profile.describe(post(number, title="Meu Blog - Início")).headline == ""
    profile = learned()
    assert profile.describe(post(50, title="Meu Blog: ")).headline == ""
    assert profile.describe(post(51, title="Meu Blog: - ")).headline == ""


def test_the_site_name_in_h1_is_not_taken_for_the_headline_once_it_is_known():
    profile = HostProfile()
    body = f"<h1>Meu Blog</h1><p>{sentences(4, 1)}</p>"
    for number in range(10):
        page = profile.describe(post(number, f"{body}{number}", f"Meu Blog - Resenha {chr(97 + number)}"))
    assert page.headline == "Resenha j"


# A blog in Portuguese whose generator writes lang="en-us": body, and whether the post alone shows its language.
CODE = "<pre>def main(args):\n    for line in open(args.file):\n        print(line.strip())\n    return True</pre>"
SHORT_POSTS = [
    "<p>Boa!</p>", "<p>Assisti ontem. Ótimo.</p>", "<p>Matrix</p>", "<p>Ok, voltei.</p>", f"<p>Segue:</p>{CODE}", CODE,
    "<p>Foto: Ana.</p>", "<p>Blade Runner, Alien, Star Wars</p>", "<p>Nota: 8</p>", "<p>Feliz ano novo!</p>",
    "<p>The Beatles: Abbey Road</p>", "<p>Lost in Translation (2003)</p>", "<p>2009</p>", "<p></p>", "<p>:-)</p>",
    "<p>Let It Be, Help!, Yesterday, Something</p>", "<p>Em breve.</p>", f"<p>Código novo</p>{CODE}{CODE}",
    "<ul><li>Kill Bill<li>Pulp Fiction<li>Jackie Brown</ul>", "<p>Fim.</p>", "<p>Ver o <code>README</code></p>",
    "<p>E você?</p>", "<p>Top 5: Jaws, Psycho, The Birds, The Shining, Halloween</p>", "<p>Feriado!</p>",
]  # fmt: skip


@pytest.mark.parametrize("body", SHORT_POSTS)
def test_a_short_post_is_in_the_language_of_its_site(body):
    profile = learned()
    assert profile.describe(post(50, body, title="Meu Blog: nota")).language == "pt"


@pytest.mark.parametrize("number", range(20))
def test_a_post_outvotes_the_declared_language_menus_and_code(number):
    page = post(number, f"<p>{sentences(3 + number % 3, number)}</p>{CODE * 3}", notice=f"<div>{FOOTER}</div>")
    assert page.language == "pt"


SIDE = (
    "<div><h3>About me</h3><p>Profile picture. View my complete profile.</p><h3>Blog archive</h3>"
    "<p>Powered by Blogger. All rights reserved. Subscribe to posts by email.</p></div>"
)


def test_a_blog_of_short_posts_in_an_english_template_is_not_english():
    rng, profile, found = random.Random(5), HostProfile(), []
    for number in range(200):
        body = rng.choice(SHORT_POSTS) if rng.random() < 0.35 else f"<p>{sentences(rng.randint(1, 5), number)}</p>"
        code = CODE * rng.randint(1, 3) if rng.random() < 0.3 else ""
        posted = f"<p>Posted by Ana at 10:{number % 60:02} PM. Labels: films, reviews. No comments: Post a comment</p>"
        page = post(number, f"{SIDE}<div class=post>{body}{code}</div>{posted}")
        found.append(profile.describe(page).language)
    assert found[:20].count("pt") < 20, "or else the template is no test"
    assert found[20:].count("pt") == 180


def test_a_byline_with_another_time_on_each_page_is_template_but_a_chapter_number_is_not():
    profile = HostProfile()
    for number in range(12):
        byline = f"<p>Posted by Ana at 10:{10 + number} PM. Labels: films</p>"
        page = profile.describe(post(number, f"<p>Capítulo {number}</p><p>{sentences(5, number)}</p>{byline}"))
    template = lines_of(page, page.template_spans)
    assert "Posted by Ana at 10:21 PM. Labels: films" in template
    assert "Capítulo 11" not in template


def test_a_short_text_without_a_site_follows_its_declaration():
    page = parse(b"<html lang=pt-BR><title>Matrix</title><p>Matrix</p>", "http://h.test/", "text/html")
    assert (page.language, page.language_chars) == ("pt", 0)
    assert HostProfile().describe(page).language == "pt"


def test_a_long_text_in_another_language_is_not_outvoted_by_its_site():
    english = (
        "The council decided yesterday that the road through the village would be repaired before the winter. " * 4
    )
    assert learned().describe(post(50, f"<p>{english}</p>")).language == "en"


def test_a_page_of_which_no_content_is_known_has_the_language_of_its_lines_and_its_template():
    english = (
        "The council decided yesterday that the road through the village would be repaired before the winter. " * 4
    )
    page = replace(post(50, f"<p>{english}</p>"), content_spans=(), language="en", language_chars=600)
    page = learned().describe(page)
    assert (page.language, page.content_spans) == ("en", ())
    assert "Home" in lines_of(page, page.template_spans)


def test_a_short_text_keeps_a_language_that_its_site_writes_in():
    english = "The council decided yesterday that the road through the village would be repaired before the winter. "
    profile = HostProfile()
    for number in range(30):
        profile.describe(post(number, f"<p>{english * 4} {number}</p>" if number % 3 == 0 else ""))
    assert profile.describe(post(50, f"<p>{english}</p>")).language == "en"


def test_a_page_with_a_notice_in_another_language_is_in_the_language_of_its_own_text():
    notice = f"<p>{NOTICE} {NOTICE[:90]}</p><p>{NOTICE[:80]} Read more about it here.</p>"
    profile = learned(notice=notice, body="")
    page = profile.describe(post(50, f"<p>{sentences(3, 50)}</p>", notice=notice))
    assert page.language == "pt"


def test_a_stored_profile_goes_on_where_it_was():
    one, other = learned(20), HostProfile()
    for number in range(20):
        other.describe(post(number))
        if other.is_worth_storing(is_leaving=True):
            other = HostProfile(other.encode())
    for number in range(20, 60):
        assert one.describe(post(number)) == other.describe(post(number))


def test_a_profile_is_small_and_a_foreign_one_is_begun_anew():
    profile = HostProfile()
    for number in range(300):
        body = "".join(f"<p>{sentences(1, 7 * number + line)} {number} {line}</p>" for line in range(60))
        profile.describe(post(number, body, f"A{number} - B{number % 7} - {'C' * 90}{number % 5}"))
    assert len(profile._lines) <= 4 * host_profile.STATE_LINES_MAX
    assert len(profile.encode()) < 12_000
    for content in (b"junk", b"\x90", b"\x93\x01\xc4\x03abc\xc4\x01a", b"\xc1"):
        assert HostProfile(content).describe(post(1)).template_spans == ()


def test_a_small_host_is_not_worth_storing_and_not_every_page_is_written():
    profile = HostProfile()
    for number in range(host_profile.STORED_PAGES_MIN):
        assert not profile.is_worth_storing(is_leaving=True)
        profile.describe(post(number))
    assert profile.is_worth_storing(is_leaving=True)
    assert not profile.is_worth_storing(is_leaving=False)
    profile.encode()
    assert not profile.is_worth_storing(is_leaving=True)


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("ab \n\ud800é|-"), max_size=40), min_size=6, max_size=20))
def test_any_texts_give_whole_lines(texts):
    profile = HostProfile()
    for number, lines in enumerate(texts):
        text = "\n".join(filter(None, lines.split("\n")))
        spans = ((0, len(text)),) if text else ()
        page = Page(f"u{number}", text[:9], text, content_id=compute_fingerprints(text).content_id, content_spans=spans)
        page = profile.describe(page)
        for start, end in (*page.template_spans, *page.content_spans):
            assert start < end
            assert start == 0 or page.text[start - 1] == "\n"
            assert end == len(page.text) or page.text[end] == "\n"


def test_a_page_of_very_many_lines_is_read_at_both_ends(monkeypatch):
    monkeypatch.setattr(host_profile, "LINES_READ_MAX", 8)
    profile = HostProfile()
    for number in range(12):
        page = profile.describe(post(number, "".join(f"<p>{sentences(1, 100 * number + n)}</p>" for n in range(20))))
    template = lines_of(page, page.template_spans)
    assert template[0] == "Home"
    assert template[-1].startswith("Powered by")
    assert page.content.startswith("O ")
