"""Finds when a page was published and last modified, each with the source that states it (`PageDate`).

Sources in the order of trust: JSON-LD; microdata and RDFa; meta elements; time elements; the URL; a byline, which is a
date beside the headline, or behind words such as "Publicado em". Less trusted sources are read only for a date that is
still missing. A date is written for machines (`date_formats`), or for people, in Portuguese or English (17 de maio de
2009; May 17, 2009; 17/05/2009).
Promises: each date is a day of the calendar with day, month and four-digit year, not before `DATE_MIN`; an order of day
and month that cannot be decided is no date. A page is not modified on a day before it is published. A list of several
articles has the date of none of them; dates of comments, reviews and teasers do not count. Pure; the work is bounded
by the constants below.
Knows no clock: a date in the future is refused where the time of the visit is known (`crawl.worker.outcome`).
"""

import re
from bisect import bisect_right
from calendar import monthrange, timegm
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from turbohtml import Document, Element

from tarrafa.model import PageDate
from tarrafa.parse.date_formats import DATE_LENGTH_MAX, DATE_MIN, MONTH_OF, YEAR_MIN, parse_date
from tarrafa.parse.rdf.nquads import RDF_TYPE, iri_of, literal_value, parse_nquads
from tarrafa.parse.structured.extraction import StructuredData

DATED_ITEMS_MAX = 64  # of structured data
DATED_LINES_MAX = 500  # statements about dates, or about one item with a date
TIMES_MAX = 40  # time elements that are looked at
ANCESTORS_MAX = 32  # of a time element
HEADLINE_LEVELS_MAX = 4  # a time element and the headline have a common ancestor so near
BYLINE_BEFORE, BYLINE_AFTER = 160, 500  # characters around the headline
BYLINE_REST_MAX = 60  # characters beside the date in its line, if no word says what the date is
LIST_DAYS_MIN = 3  # so many different days beside the headline are a list
FOOTER_LENGTH = 500  # characters at the end of the text: "last modified"
BYLINE_PROSE_WORDS_MAX = 3  # in lower case: names have capitals, a sentence that mentions a day has not
LABEL_LENGTH = 40
YEARS_MAX = 20  # four-digit years that are looked at in one text
CHARS_BEFORE_YEAR = 32  # longer than any day and month

META_PUBLISHED = (
    "article:published_time", "article:published", "datepublished", "citation_publication_date", "citation_online_date",
    "citation_date", "dcterms.issued", "dc.date.issued", "dcterms.created", "dc.date.created", "dcterms.date",
    "dc.date", "parsely-pub-date", "sailthru.date", "publish_date", "publish-date", "pubdate", "publication_date",
    "pub_date", "og:pubdate", "og:published_time", "og:article:published_time", "date", "datecreated",
)  # fmt: skip
META_MODIFIED = (
    "article:modified_time", "article:modified", "datemodified", "og:updated_time", "og:modified_time",
    "article:updated_time", "og:article:modified_time",
    "dcterms.modified", "dc.date.modified", "last-modified", "lastmod", "last_updated",
)  # fmt: skip
META_DATES = frozenset((*META_PUBLISHED, *META_MODIFIED))

_SCHEMA = re.compile(r"<https?://schema\.org/(\w+)>").fullmatch
_DUBLIN_CORE = re.compile(r"<http://purl\.org/dc/(?:terms|elements/1\.1)/(\w+)>").fullmatch
_PUBLISHED, _MODIFIED = ("datePublished", "dateCreated", "issued", "created", "date"), ("dateModified", "modified")
_DATE_NAMES = frozenset((*_PUBLISHED, *_MODIFIED))
_ARTICLES = frozenset((
    "Article", "NewsArticle", "BlogPosting", "AnalysisNewsArticle", "AskPublicNewsArticle", "BackgroundNewsArticle",
    "OpinionNewsArticle", "ReportageNewsArticle", "ReviewNewsArticle", "AdvertiserContentArticle",
    "SatiricalArticle", "ScholarlyArticle", "MedicalScholarlyArticle", "TechArticle", "APIReference", "Report",
    "SocialMediaPosting", "LiveBlogPosting", "DiscussionForumPosting", "Recipe", "HowTo",
))  # fmt: skip
_PAGES = frozenset((
    "WebPage", "AboutPage", "CollectionPage", "ContactPage", "FAQPage", "ItemPage", "ProfilePage", "QAPage",
))  # fmt: skip
_MEDIA = frozenset(("VideoObject", "PodcastEpisode", "Dataset", "Question"))
# The object of such a property is part of the page, or only named by it.
_NESTED = frozenset((
    "itemListElement", "hasPart", "comment", "comments", "review", "citation", "mentions", "blogPost", "blogPosts",
    "liveBlogUpdate", "video", "image", "about", "associatedMedia", "isBasedOn", "isRelatedTo", "suggestedAnswer",
    "acceptedAnswer", "workExample", "subjectOf",
))  # fmt: skip

_PUBLISHED_CLASS = re.compile(r"publish|entry-date|post-date|post_date|pubdate|dt-published|date-posted|article-date")
_MODIFIED_CLASS = re.compile(r"updated|modified")
_not_of_page = re.compile(
    r"comment|repl(?:y|ies)|related|sidebar|widget|teaser|recent|popular|trending|carousel|latest|relacionad|coment"
    r"|footer-posts|disqus|respond"
).search
_is_metadata = re.compile(r"meta|byline|info|date|author|publish").search

_url_date = re.compile(r"/((?:19|20)\d\d)([/-])(\d\d?)\2(\d\d?)(?=[/.-]|$)", re.ASCII).search
# A label may be alone in the line before its date.
_modified_label = re.compile(
    r"(?:(?<![a-z])(?:atuali[sz]|modific|alterad|revisad|updated|modified|changed|revised|edited)[^\n<>=]*\n?|\$Date:\s*)$",
    re.IGNORECASE,
).search
# By programs that make documentation: the day says nothing of the text.
_generated_label = re.compile(
    r"(?<![a-z])(?:generated|gerad[oa]|generad[oa]|généré|erstellt|erzeugt)[^\n]*\n?$", re.I
).search
_prose_words = re.compile(r"(?<![^\W\d_])[a-zà-ÿ]{3,}").findall
_published_label = re.compile(
    r"(?:publi(?:cad|caç|sh)|post(?:ad|ed)|escrit[oa]|written|criad[oa]|created|released)[^\n]*\n?$"
    r"|\b(?:data|date)\s*:\s*$",
    re.IGNORECASE,
).search

DAY_S = 86_400
TRUST = ("json-ld", "microdata", "meta", "time", "url", "byline")
Spans = Sequence[tuple[int, int]]
MetaDate = tuple[str, str]  # the name of a meta element, in lower case, and its content


class WrittenDate(NamedTuple):
    """A date in a text: first second of its day, or the second; and its place in the text."""

    at: int
    has_time: bool = False
    start: int = 0
    end: int = 0


class PageDates(NamedTuple):
    published: PageDate | None = None
    modified: PageDate | None = None

    def completed(self, other: "PageDates") -> "PageDates":
        return PageDates(self.published or other.published, self.modified or other.modified)


class DatedPage(NamedTuple):
    """The parts of a parsed page that may state a date."""

    document: Document
    url: str
    stated: StructuredData
    metas: Sequence[MetaDate]
    title: str
    headings: Sequence[str]
    text: str
    language: str
    declared_language: str
    code_spans: Spans = ()  # of the text


def page_dates(page: DatedPage) -> PageDates:
    day_first = is_day_first(page.language, page.declared_language)
    found = PageDates()
    for source in _SOURCES:
        found = found.completed(source(page, day_first))
        if found.published and found.modified:
            break
    return _without_contradiction(found)


def _without_contradiction(found: PageDates) -> PageDates:
    """Without the less trusted date, if the page was modified on a day before it was published."""
    published, modified = found
    if published is None or modified is None or modified.at // DAY_S >= published.at // DAY_S:
        return found
    if TRUST.index(modified.source) < TRUST.index(published.source):
        return PageDates(None, modified)
    return PageDates(published, None)


def _page_date(text: str, source: str, day_first: bool | None) -> PageDate | None:
    return _of(read_date(text, day_first), source)


def _of(date: WrittenDate | None, source: str) -> PageDate | None:
    return PageDate(date.at, source, date.has_time) if date is not None else None


# -- JSON-LD, microdata, RDFa, meta --------------------------------------------------------------------------------


def _stated_dates(page: DatedPage, day_first: bool | None) -> PageDates:
    statements, found = page.stated.statements, PageDates()
    if "schema.org/date" not in statements and "purl.org/dc/" not in statements:
        return found
    first = page.stated.jsonld_from
    for source, some in (("json-ld", statements[first:]), ("microdata", statements[:first])):
        found = found.completed(_dates_of_items(some, page.url, source, day_first))
    return found


def _dates_of_items(statements: str, url: str, source: str, day_first: bool | None) -> PageDates:
    """The dates of the article that the page is, else of the page. Of several articles, the one with the page's URL."""
    kinds, dates = defaultdict[str, set[str]](set), defaultdict[str, dict[str, PageDate]](dict)
    nested = set[str]()
    for subject, predicate, value, _ in parse_nquads(_about_dates(statements)):
        if predicate == RDF_TYPE:
            kinds[subject].add(kind[1] if (kind := _SCHEMA(value)) else "")
            continue
        known = _SCHEMA(predicate)
        name = known or _DUBLIN_CORE(predicate)
        if name is None:
            continue
        if name[1] in _NESTED:
            nested.add(value)
        elif name[1] in _DATE_NAMES and (known or _is_page(subject, url)):
            text = literal_value(value)
            if text is not None and (date := _page_date(text.text, source, day_first)):
                dates[subject].setdefault(name[1], date)
    for wanted in (_ARTICLES, _PAGES, _MEDIA, None):  # None: the page itself, whatever it is
        items = [
            dates[subject]
            for subject in dates
            if subject not in nested and (not kinds[subject].isdisjoint(wanted) if wanted else _is_page(subject, url))
        ]
        days = {item["datePublished"].at // DAY_S for item in items if "datePublished" in item}
        if len(days) > 1:
            items = [dates[subject] for subject in dates if _is_page(subject, url)]
        if items:
            return PageDates(_first(items, _PUBLISHED), _first(items, _MODIFIED))
    return PageDates()


def _about_dates(text: str) -> str:
    """The dates, and what is said of their items: to parse all statements would take far longer."""
    lines = [*_lines_with("schema.org/date", text), *_lines_with("purl.org/dc/", text)]
    for item in islice(dict.fromkeys(line.partition(" ")[0] for line in lines), DATED_ITEMS_MAX):
        lines += [*_lines_with(f"{item} {RDF_TYPE} ", text), *_lines_with(f" {item} .", text)]
    return "\n".join(lines)


def _lines_with(part: str, text: str) -> Iterator[str]:
    at = text.find(part)
    for _ in range(DATED_LINES_MAX):
        if at < 0:
            return
        end = text.find("\n", at)
        yield text[text.rfind("\n", 0, at) + 1 : end]
        at = text.find(part, end)


def _is_page(subject: str, url: str) -> bool:
    return iri_of(subject).partition("#")[0] == url


def _first(items: Iterable[dict[str, PageDate]], names: Sequence[str]) -> PageDate | None:
    return next((item[name] for item in items for name in names if name in item), None)


def _meta_dates(page: DatedPage, day_first: bool | None) -> PageDates:
    if not page.metas:
        return PageDates()
    values = dict(reversed(page.metas))  # the first of several elements with one name

    def first(names: Iterable[str]) -> PageDate | None:
        read = (_page_date(values[name], "meta", day_first) for name in names if name in values)
        return next(filter(None, read), None)

    return PageDates(first(META_PUBLISHED), first(META_MODIFIED))


# -- time elements ---------------------------------------------------------------------------------------------------


class _TimeElement(NamedTuple):
    date: PageDate
    hint: str  # "published", "modified" or nothing
    near: bool  # the headline


def _time_dates(page: DatedPage, day_first: bool | None) -> PageDates:
    """A time element counts if it stands near the headline, or if its attributes say what it is and no other disagrees.
    Pages with several h1 are often lists: there the elements must agree.
    """
    elements = page.document.find_all("time", limit=TIMES_MAX)
    if not elements:
        return PageDates()
    is_list = len(page.document.find_all("h1", limit=2)) > 1
    times = [one for element in elements if (one := _time_element(element, day_first)) is not None]
    modified = [one for one in times if one.hint == "modified"]
    others = [one for one in times if one.hint != "modified"]
    return PageDates(_agreed(others, is_list), _agreed(modified, is_list))


def _agreed(times: list[_TimeElement], is_list: bool) -> PageDate | None:
    hinted = [one for one in times if one.hint]
    for some in ([one for one in hinted if one.near], [one for one in times if one.near], hinted):
        days = {one.date.at // DAY_S for one in some}
        if len(days) == 1 or (days and some[0].near and not is_list):
            return some[0].date
    return None


def _time_element(element: Element, day_first: bool | None) -> _TimeElement | None:
    """A time element that may be the date of the page, not of a comment, a teaser or an entry of a list."""
    value = element.attr("datetime") or element.text
    date = _page_date(value, "time", day_first) if len(value) < 200 else None
    if date is None:
        return None
    property_ = (element.attr("itemprop") or "").lower()
    if property_ and element.closest("[itemscope]") is not None:
        return None  # it is known as microdata of the page, or belongs to another item
    near = False
    for level, ancestor in enumerate(element.ancestors):
        if not isinstance(ancestor, Element) or ancestor.tag == "body" or level >= ANCESTORS_MAX:
            break
        tag, names = ancestor.tag, f"{ancestor.attr('class') or ''} {ancestor.attr('id') or ''}"[:200].lower()
        if tag in ("nav", "aside") or _not_of_page(names) or (tag == "li" and not _is_metadata(names)):
            return None
        near = near or (level < HEADLINE_LEVELS_MAX and tag != "main" and ancestor.find("h1") is not None)
    names = f"{element.attr('class') or ''} {property_}".lower()
    if element.attr("pubdate") is not None or _PUBLISHED_CLASS.search(names) or "datecreated" in names:
        return _TimeElement(date, "published", near)
    return _TimeElement(date, "modified" if _MODIFIED_CLASS.search(names) else "", near)


# -- URL and byline --------------------------------------------------------------------------------------------------


def _url_dates(page: DatedPage, day_first: bool | None) -> PageDates:
    found = _url_date(page.url.partition("?")[0])
    return PageDates(_page_date(f"{found[1]}-{found[3]}-{found[4]}", "url", None)) if found else PageDates()


def _byline_dates(page: DatedPage, day_first: bool | None) -> PageDates:
    """Dates beside the headline: behind a word that says what they are, or nearly alone in a line; not in code. Several
    days there are a list. At the end of the page only the date of a modification is sought.
    """
    text, published, modified = page.text, None, None
    in_title = (one for one in page.headings if one in page.title)
    headline = max(in_title, key=len, default="") or next(iter(page.headings), "")
    start = max(0, text.find(headline))
    first = max(0, start - BYLINE_BEFORE)
    window = text[first : start + len(headline) + BYLINE_AFTER]
    alone, days, end = list[WrittenDate](), set[int](), 0
    for date in find_dates(window, day_first):
        if _is_inside(page.code_spans, first + date.start):
            continue
        label = window[max(end, date.start - LABEL_LENGTH) : date.start]
        end = date.end
        if _generated_label(label):
            continue
        is_byline = _is_byline(window, date, start - first)
        if _modified_label(label):
            modified = modified or date
            continue
        days |= {date.at} if is_byline else set()
        if _published_label(label):
            published = published or date
        elif is_byline:
            alone.append(date)
    if len(days) >= LIST_DAYS_MIN:
        published = None
    elif published is None and alone:
        published = alone[0]
    first = max(start, len(text) - FOOTER_LENGTH)
    footer = text[first:] if modified is None else ""
    for date in find_dates(footer, day_first):
        if _is_inside(page.code_spans, first + date.start):
            continue
        if _modified_label(footer[max(0, date.start - LABEL_LENGTH) : date.start]):
            modified = date
    return PageDates(_of(published, "byline"), _of(modified, "byline"))


def _is_inside(spans: Spans, place: int) -> bool:
    """Whether a place is in one of some spans, which are in order."""
    number = bisect_right(spans, (place, place))
    return any(start <= place < end for start, end in spans[max(0, number - 1) : number + 1])


def _is_byline(window: str, date: WrittenDate, headline: int) -> bool:
    """Whether a date without a label is a byline: in a short line below the headline, or just above it."""
    line_start, line_end = window.rfind("\n", 0, date.start) + 1, window.find("\n", date.end)
    line_end = len(window) if line_end < 0 else line_end
    if (line_end - line_start) - (date.end - date.start) > BYLINE_REST_MAX:
        return False
    if window[line_start : date.start].rstrip().endswith(("'", '"', "<", ">", "=")):  # a value
        return False
    if len(_prose_words(f"{window[line_start : date.start]} {window[date.end : line_end]}")) > BYLINE_PROSE_WORDS_MAX:
        return False
    return date.start >= headline or not window[line_end:headline].strip()


_SOURCES: tuple[Callable[[DatedPage, bool | None], PageDates], ...] = (
    _stated_dates,
    _meta_dates,
    _time_dates,
    _url_dates,
    _byline_dates,
)


# -- dates as people write them ----------------------------------------------------------------------------------------

_year = re.compile(r"(?:19|20)\d\d(?!\d)", re.ASCII).finditer
_ORDINAL = r"(?:\.?[ºª°]|o(?=\s)|st|nd|rd|th)?"
_day_month = re.compile(
    rf"(?<![\d/.-])(\d\d?){_ORDINAL}(?:\s+de\s+|\s+of\s+|[\s/.-]\s*)([a-zç]{{3,9}})(?:\s+de\s+|[\s/.,-]\s*|\.,?\s+)$",
    re.IGNORECASE,
).search
_month_day = re.compile(rf"(?<![a-z])([a-zç]{{3,9}})\.?\s+(\d\d?){_ORDINAL}\s*[,\s]\s*$", re.IGNORECASE).search
_numbers = re.compile(r"(?<![\d/.-])(\d\d?)([/.-])(\d\d?)\2$", re.ASCII).search
_year_first = re.compile(r"(\d{4})([/.-])(\d\d?)\2(\d\d?)(?![\d/])", re.ASCII).match
_compact = re.compile(r"(\d{4})(\d\d)(\d\d)", re.ASCII).fullmatch
_is_whole_w3c = re.compile(
    r"\d{4}-\d\d?-\d\d?(?:[T\s].*)?|[a-z]*[,.]?\s*\d\d?[\s-]+[a-z]{3}.*", re.ASCII | re.IGNORECASE
).fullmatch

_MONTH_FIRST = ("en-us", "en-ph")
_DAY_FIRST = ("en-gb", "en-au", "en-nz", "en-ie", "en-in", "en-za", "en-ng")


def is_day_first(language: str, declared: str = "") -> bool | None:
    """The order of day and month by the language of a page, and by the tag that it declares; None: not decidable."""
    if language not in ("", "en"):
        return True
    declared = declared.strip().lower().replace("_", "-")
    return False if declared.startswith(_MONTH_FIRST) else True if declared.startswith(_DAY_FIRST) else None


def read_date(text: str, day_first: bool | None = None) -> WrittenDate | None:
    """The date in a value for machines (`datetime`, `content`), which many sites write as for people."""
    text = text.strip()
    if not text or len(text) > DATE_LENGTH_MAX:
        return None
    if _is_whole_w3c(text) and (at := int(parse_date(text))):
        return WrittenDate(at, ":" in text) if at >= DATE_MIN else None
    if found := _compact(text):
        return _date(int(found[1]), int(found[2]), int(found[3]), 0, len(text))
    return next(find_dates(text, day_first), None)


def find_dates(text: str, day_first: bool | None = None) -> Iterator[WrittenDate]:
    """The dates in a text, in order. A year is found first, which is fast; then the day and month beside it."""
    if "20" not in text and "19" not in text:  # most texts: 20 times as fast as the pattern
        return
    for count, year in enumerate(_year(text)):
        if count >= YEARS_MAX:
            return
        if found := _date_at(text, year.start(), year.end(), day_first):
            yield found


def _date_at(text: str, start: int, end: int, day_first: bool | None) -> WrittenDate | None:
    """The date whose year is at that place."""
    year, first = int(text[start:end]), max(0, start - CHARS_BEFORE_YEAR)
    before = text[first:start]
    if found := _day_month(before):
        return _date(year, MONTH_OF.get(found[2].lower(), 0), int(found[1]), first + found.start(), end)
    if found := _month_day(before):
        return _date(year, MONTH_OF.get(found[1].lower(), 0), int(found[2]), first + found.start(), end)
    if found := _numbers(before):
        day, month = _ordered(int(found[1]), int(found[3]), day_first)
        return _date(year, month, day, first + found.start(), end)
    if (found := _year_first(text, start)) and not before[-1:].isdigit():
        return _date(year, int(found[3]), int(found[4]), start, found.end())
    return None


def _ordered(first: int, second: int, day_first: bool | None) -> tuple[int, int]:
    """Day and month of two numbers; zeros if the order is not decidable."""
    if first > 12 or first == second:
        return first, second
    if second > 12:
        return second, first
    if day_first is None:
        return 0, 0
    return (first, second) if day_first else (second, first)


def _date(year: int, month: int, day: int, start: int, end: int) -> WrittenDate | None:
    if year < YEAR_MIN or not 1 <= month <= 12 or not 1 <= day <= monthrange(year, month)[1]:
        return None
    return WrittenDate(timegm((year, month, day, 0, 0, 0)), False, start, end)
