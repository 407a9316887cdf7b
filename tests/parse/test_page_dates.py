"""`parse.page_dates`: the dates of a page, by source, language and order of trust."""

from datetime import UTC, datetime

import pytest

from tarrafa.model import Page, PageDate
from tarrafa.parse.page import parse
from tarrafa.parse.page_dates import find_dates, is_day_first, read_date

URL = "http://www.exemplo.br/noticia"
PORTUGUESE = "<p>Os pescadores da colônia voltaram do mar com as redes cheias de peixe, e a feira começou cedo.</p>" * 3
ENGLISH = "<p>The fishermen of the colony came back from the sea with full nets, and the market began early.</p>" * 3


def page_of(markup: str, url: str = URL) -> Page:
    return parse(markup.encode(), url, "text/html; charset=utf-8")


def shown(date: PageDate | None) -> str:
    if date is None:
        return ""
    pattern = "%Y-%m-%dT%H:%M:%SZ" if date.has_time else "%Y-%m-%d"
    return f"{datetime.fromtimestamp(date.at, UTC).strftime(pattern)} {date.source}"


def dates_of(markup: str, url: str = URL) -> tuple[str, str]:
    page = page_of(markup, url)
    return shown(page.published), shown(page.modified)


def json_ld(text: str) -> str:
    return f'<script type="application/ld+json">{text}</script>'


ARTICLE = '{"@context": "https://schema.org", "@type": "NewsArticle", "datePublished": "2009-05-17T10:00:00-03:00"%s}'
MICRODATA = (
    '<div itemscope itemtype="http://schema.org/BlogPosting"><h1>Maré</h1>'
    '<meta itemprop="datePublished" content="2009-05-18">'
    '<time itemprop="dateModified" datetime="2010-01-02">x</time></div>'
)
META = '<meta property="article:published_time" content="2009-05-19T08:00:00Z">'
TIME = '<article><h1>Maré</h1><time datetime="2009-05-20">ontem</time></article>'


@pytest.mark.parametrize(
    ("markup", "published", "modified"),
    [
        (json_ld(ARTICLE % ', "dateModified": "2010-01-01"'), "2009-05-17T13:00:00Z json-ld", "2010-01-01 json-ld"),
        (MICRODATA, "2009-05-18 microdata", "2010-01-02 microdata"),
        ('<div vocab="http://schema.org/" typeof="Article"><span property="datePublished" content="2009-05-18">x</span>'
         "</div>", "2009-05-18 microdata", ""),
        (META, "2009-05-19T08:00:00Z meta", ""),
        ('<meta name="DC.date" content="2009-05-17"><meta property="og:updated_time" content="2010-02-03">',
         "2009-05-17 meta", "2010-02-03 meta"),
        ('<meta name="citation_publication_date" content="2009/05/17">', "2009-05-17 meta", ""),
        ('<meta itemprop="datePublished" content="2009-05-17">', "2009-05-17 meta", ""),
        ('<meta name="date" content="Sun, 17 May 2009 10:00:00 GMT">', "2009-05-17T10:00:00Z meta", ""),
        ('<meta name="date" content="20090517">', "2009-05-17 meta", ""),
        (TIME, "2009-05-20 time", ""),
        ('<p><time pubdate datetime="2009-05-20">x</time>', "2009-05-20 time", ""),
        ('<p><time class="entry-date published" datetime="2009-05-20">x</time> <time class="updated" '
         'datetime="2009-06-01">y</time>', "2009-05-20 time", "2009-06-01 time"),
        ('<h1>Maré</h1><time class="post-date">17 de maio de 2009</time>', "2009-05-17 time", ""),
    ],
)  # fmt: skip
def test_dates_of_markup(markup: str, published: str, modified: str) -> None:
    assert dates_of(markup + PORTUGUESE) == (published, modified)


@pytest.mark.parametrize(
    ("url", "published"),
    [
        ("http://a.br/2009/05/17/titulo", "2009-05-17 url"),
        ("http://a.br/2009/05/17/", "2009-05-17 url"),
        ("http://a.br/blog/2009-05-17-titulo.html", "2009-05-17 url"),
        ("http://a.br/2009/5/7/titulo", "2009-05-07 url"),
        ("http://a.br/2009/05/titulo", ""),
        ("http://a.br/2009/13/17/titulo", ""),
        ("http://a.br/1889/11/15/titulo", ""),
        ("http://a.br/?data=/2009/05/17/", ""),
        ("http://a.br/12009/05/17/", ""),
    ],
)
def test_dates_of_urls(url: str, published: str) -> None:
    assert dates_of(PORTUGUESE, url) == (published, "")


@pytest.mark.parametrize(
    ("byline", "body", "published", "modified"),
    [
        ("17 de maio de 2009", PORTUGUESE, "2009-05-17", ""),
        ("1º de maio de 2009", PORTUGUESE, "2009-05-01", ""),
        ("Por Ana Silva, 17 de março de 2009 às 10h", PORTUGUESE, "2009-03-17", ""),
        ("Publicado em 17/05/2009", PORTUGUESE, "2009-05-17", ""),
        ("Publicado em 03/05/2009", PORTUGUESE, "2009-05-03", ""),
        ("Publicado em 17/05/2009, atualizado em 2 de junho de 2010", PORTUGUESE, "2009-05-17", "2010-06-02"),
        ("Publicado em<br>17/05/2009<br>Atualizado<br>18/05/2009", PORTUGUESE, "2009-05-17", "2009-05-18"),
        ("17.mai.2009", PORTUGUESE, "2009-05-17", ""),
        ("May 17, 2009", ENGLISH, "2009-05-17", ""),
        ("17 May 2009", ENGLISH, "2009-05-17", ""),
        ("Posted on Sept. 3rd, 2009 by Ann", ENGLISH, "2009-09-03", ""),
        ("Published 5/17/2009", ENGLISH, "2009-05-17", ""),
        ("Published 3/5/2009", ENGLISH, "", ""),  # the third of May or the fifth of March
        ("Published 4/4/2009", ENGLISH, "2009-04-04", ""),
        ("Published 2009-05-03", ENGLISH, "2009-05-03", ""),
        ("31 de fevereiro de 2009", PORTUGUESE, "", ""),
        ("17 de maio de 1989", PORTUGUESE, "", ""),
        ("Em 17 de maio de 2009 os pescadores de Itaipu foram ao mar e voltaram com muito peixe", PORTUGUESE, "", ""),
        ("3 de maio de 2009<br>4 de maio de 2009<br>5 de maio de 2009", PORTUGUESE, "", ""),  # a list
    ],
)  # fmt: skip
def test_dates_of_bylines(byline: str, body: str, published: str, modified: str) -> None:
    expected = tuple(f"{day} byline" if day else "" for day in (published, modified))
    assert dates_of(f"<title>Maré - Jornal</title><h2>Jornal</h2><h1>Maré</h1><div>{byline}</div>{body}") == expected
    if "maio de 2009<br>" not in byline:
        assert dates_of(f"<title>Maré</title><div>{byline}</div><h1>Maré</h1>{body}") == expected


def test_a_date_in_code_is_not_of_the_page() -> None:
    code = "<pre>UPDATE weather\nWHERE date > '1994-11-28';</pre>"
    assert dates_of(f"<title>Updates</title><h1>Updates</h1><p>Use this:</p>{code}{ENGLISH}") == ("", "")
    assert dates_of(f"<title>Updates</title><h1>Updates</h1><div>28 May 2009</div>{code}{ENGLISH}")[0]


@pytest.mark.parametrize(
    "line",
    [
        "As of 2014/10/14, the version of the tool in pkgsrc is 3.2014",
        "C version currently lacks channel support and seems buggy (13 Jan 2014)",
        "Generated on Thu Oct 13 2022 17:31:58 for cereal by 1.9.4",
        "Made with a tool. Generated: 2023-02-12 16:48:12 UTC",
        "Gerado em 12/02/2023",
        "LastUpdated &lt; '2003-12-31 23:59:59'",
        "<pre>Updated [[!date 2009-11-25]]: mumble mumble</pre>",
    ],
)
def test_a_day_in_a_sentence_or_of_a_program_that_made_the_page_dates_nothing(line: str) -> None:
    assert dates_of(f"<title>The net</title><h1>The net</h1><div>{line}</div><p>Short.</p>") == ("", "")


def test_the_date_keyword_of_a_version_control_system_is_a_modification() -> None:
    page = "<title>The net</title><h1>The net</h1><p>Short.</p><address>$Date: 2003/10/06 22:04:16 $</address>"
    assert dates_of(page) == ("", "2003-10-06 byline")


def test_a_list_of_days_beside_the_headline_dates_nothing_whatever_one_entry_says() -> None:
    entries = "".join(
        f"<p>{day} May 2009<p>Version 1.{day} is released. <a href=/{day}>More</a>" for day in range(9, 5, -1)
    )
    assert dates_of(f"<title>News</title><h1>News</h1>{entries}{ENGLISH}") == ("", "")


def test_last_modification_is_read_at_the_end_of_a_page() -> None:
    footer = "<p>Última modificação: 17 de maio de 2009"
    assert dates_of(f"<h1>Maré</h1>{PORTUGUESE * 5}{footer}") == ("", "2009-05-17 byline")
    assert dates_of(f"<h1>Maré</h1>{PORTUGUESE * 5}<p>Niterói, 17 de maio de 2009") == ("", "")


def test_order_of_trust() -> None:
    byline = "<div>Publicado em 21/05/2009</div>"
    parts = [json_ld(ARTICLE % ""), MICRODATA, META, TIME, "", byline + PORTUGUESE]
    expected = ["17T13:00:00Z json-ld", "18 microdata", "19T08:00:00Z meta", "20 time", "22 url", "21 byline"]
    for first, date in enumerate(expected):
        url = "http://a.br/2009/05/22/x" if first <= 4 else URL
        assert dates_of("".join(parts[first:]), url)[0] == f"2009-05-{date}"


def test_english_order_of_day_and_month_is_decided_by_the_country() -> None:
    for tag, day in (("en-US", "2009-03-05"), ("en-GB", "2009-05-03"), ("en", "")):
        found = dates_of(f'<html lang="{tag}"><h1>Tide</h1><div>Published 03/05/2009</div>{ENGLISH}')
        assert found[0] == (f"{day} byline" if day else "")
    assert (is_day_first("pt", "pt-BR"), is_day_first("", ""), is_day_first("de")) == (True, None, True)


@pytest.mark.parametrize(
    "markup",
    [
        json_ld('{"@context": "https://schema.org", "@type": "Comment", "datePublished": "2009-05-17"}'),
        json_ld('{"@context": "https://schema.org", "@type": "Book", "datePublished": "1998-05-17"}'),
        json_ld('{"@context": "https://schema.org", "@type": "Blog", "blogPost": [%s]}' % (ARTICLE % "")),
        json_ld(f"[{ARTICLE % ''}, {(ARTICLE % '').replace('2009', '2010')}]"),  # which one is the page?
        json_ld((ARTICLE % "").replace("2009", "0001")),
        '<div itemscope itemtype="http://schema.org/Review"><meta itemprop="datePublished" content="2009-05-17"></div>',
        '<p itemscope itemtype="http://schema.org/Comment"><time itemprop=datePublished datetime=2009-05-17>x</time>',
        '<div class="comments"><time class="published" datetime="2009-05-17">x</time></div>',
        '<nav><time pubdate datetime="2009-05-17">x</time></nav>',
        '<ul><li><a href="/a">A</a> <time class="entry-date" datetime="2009-05-17">x</time></li></ul>',
        '<article><h2>A</h2><time class="entry-date" datetime="2009-05-17">x</time></article>'
        '<article><h2>B</h2><time class="entry-date" datetime="2009-05-18">x</time></article>',
        '<article><h1>A</h1><time datetime="2009-05-17">x</time></article>'
        '<article><h1>B</h1><time datetime="2009-05-18">x</time></article>',
        '<p>Um <time datetime="1998-07-12">dia de julho</time> na vida.</p>',
        '<meta name="date" content="2009-02-30"><meta name="dc.date" content="2009">',
        '<meta name="date" content="1989-12-31"><meta name="pubdate" content="ontem">',
        f'<meta name="date" content="2009-05-17{" " * 100_000}x">',
        f'<time pubdate datetime="{"2009-05-17 " * 50_000}">x</time>',
    ],
)  # fmt: skip
def test_dates_that_are_not_of_the_page_are_refused(markup: str) -> None:
    assert dates_of(f"<h2>Notícias</h2>{PORTUGUESE}{markup}{PORTUGUESE}") == ("", "")


def test_article_with_the_address_of_the_page_is_the_page() -> None:
    other = (ARTICLE % "").replace("2009", "2010")
    own = ARTICLE % f', "@id": "{URL}#article"'
    assert dates_of(json_ld(f"[{other}, {own}]") + PORTUGUESE)[0] == "2009-05-17T13:00:00Z json-ld"


def test_page_is_not_modified_before_it_is_published() -> None:
    earlier = '<meta property="article:modified_time" content="2008-01-01">'
    assert dates_of(META + earlier + PORTUGUESE) == ("2009-05-19T08:00:00Z meta", "")
    assert dates_of(earlier + TIME + PORTUGUESE) == ("", "2008-01-01 meta"), "the less trusted date goes"
    same_day = '<meta property="article:modified_time" content="2009-05-19">'
    assert dates_of(META + same_day + PORTUGUESE) == ("2009-05-19T08:00:00Z meta", "2009-05-19 meta")


def test_hostile_page_with_very_many_dates() -> None:
    page = page_of("<h1>Maré</h1>" + '<div><time class="published" datetime="2009-05-17">x</time>' * 100_000)
    assert shown(page.published) == "2009-05-17 time"
    items = ", ".join((ARTICLE % "").replace("17T", f"{day:02}T") for day in range(1, 29))
    assert dates_of(json_ld(f"[{items}]") + PORTUGUESE) == ("", "")
    assert len(list(find_dates("17/05/2009 " * 10_000, True))) == 20


@pytest.mark.parametrize("text", ["", " ", "2009", "2009-05", "17 de maio", "99/99/2009", "٢٠٠٩-٠٥-١٧", "0" * 65])
def test_incomplete_dates_are_refused(text: str) -> None:
    assert read_date(text, True) is None
