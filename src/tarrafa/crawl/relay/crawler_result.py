"""Converts the result that an external crawler reports into a response, a page and its links.

The external crawler made the request and parsed the page itself. Its report becomes what our own client and parser
would have produced: a `FetchResponse`, and a `Page` with canonical links, each target once, within the same limits.
Promises: pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from xxhash import xxh3_128_hexdigest

from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead
from tarrafa.model import DataSyntax, Link, Page, RobotsMeta, SyntaxUse
from tarrafa.parse import charset, fingerprint, language
from tarrafa.parse.documents.document import one_line, replace_invalid_characters
from tarrafa.parse.link_extractor import ANCHOR_LENGTH_MAX, LinkExtractor, rel_tokens
from tarrafa.parse.page import HEADING_LENGTH_MAX, HEADINGS_MAX, TITLE_LENGTH_MAX
from tarrafa.parse.robots_meta_usage import NO_RESTRICTIONS
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX, normalize_lines
from tarrafa.parse.url import UrlIdentity, base_url_of

VOCABULARIES_MAX, VOCABULARY_LENGTH_MAX = 64, 200


@dataclass(frozen=True, slots=True)
class CrawlerResult:
    """The result of one request, as the external crawler reports it. `text` is the text of a page; for robots.txt, a
    sitemap or a feed it is the file itself."""

    status: int
    fields: tuple[tuple[str, str], ...] = ()  # the header fields that matter, names in lower case
    length: int = 0
    elapsed_s: float = 0.0
    address: str = ""
    error: str = ""
    text: str = ""
    title: str = ""
    headings: tuple[str, ...] = ()
    language: str = ""
    robots: RobotsMeta = NO_RESTRICTIONS
    vocabularies: tuple[str, ...] = ()
    syntaxes: tuple[DataSyntax, ...] = ()
    canonical: str = ""
    digest: str = ""  # shows whether the page changed, if its text is not reported
    links: tuple[Link, ...] = ()
    crawler: str = ""


def to_response(result: CrawlerResult, request: FetchRequest, *, is_page: bool) -> FetchResponse:
    """The response that our own client would have given, with type and size checked. A page has no body: it is parsed
    already."""
    fields = (*result.fields, ("content-length", str(result.length)))
    head = ResponseHead(max(0, result.status), fields)
    status = (request.check_head(head) if result.status == 200 else 0) or result.status
    body = b"" if is_page else result.text.encode("utf-8", "replace")
    return FetchResponse(status, head, b"", body, result.address, result.elapsed_s, result.error)


def to_page(result: CrawlerResult, url: str, identity: UrlIdentity) -> Page:
    """The page that our own parser would have given."""
    title = one_line(result.title, TITLE_LENGTH_MAX)
    text, cut_text = normalize_lines(replace_invalid_characters(result.text[: 2 * TEXT_LENGTH_MAX + 1]))
    prints = fingerprint.compute_fingerprints(f"{title}\n{text}")
    reported_id = xxh3_128_hexdigest(f"{result.crawler}\n{result.digest}".encode()) if result.digest else ""
    detection = language.detected(text or title)
    headings = (one_line(heading, HEADING_LENGTH_MAX) for heading in result.headings[:HEADINGS_MAX])
    vocabularies = tuple(name[:VOCABULARY_LENGTH_MAX] for name in result.vocabularies[:VOCABULARIES_MAX])
    return Page(
        url=url,
        title=title,
        text=text,
        headings=tuple(filter(None, headings)),
        links=result.links,
        language=detection.code or language.normalize_tag(result.language),
        language_chars=detection.chars,
        canonical=(identity.canonicalize(result.canonical, url) or "") if result.canonical else "",
        robots=result.robots,
        content_id=prints.content_id if text else reported_id,
        simhash=prints.simhash if text else 0,
        wording=prints.wording,
        vocabularies=vocabularies,
        syntaxes=tuple(SyntaxUse(syntax, vocabularies) for syntax in dict.fromkeys(result.syntaxes)),
        cut_text=cut_text,
        parser=result.crawler,
    )


def merge_links(
    url: str,
    identity: UrlIdentity,
    reported: Iterable[Link],
    before: Iterable[Link] = (),
    base: str = "",
    encoding: str = "",
) -> tuple[tuple[Link, ...], int]:
    """Merge newly reported links into those known of a page; returns all links and the number of invalid new ones.

    Each target appears once. `encoding` is the page's encoding, in which the queries of its links are sent.
    """
    known = LinkExtractor(url, base_url_of(url), charset.UTF_8, identity)
    for link in before:
        known.add(link.url, link.anchor, link.rel)
    place = base_url_of(identity.canonicalize(base, url) or url) if base else base_url_of(url)
    reading = LinkExtractor(url, place, charset.LABELS.get(encoding.strip().lower(), charset.UTF_8), identity)
    unusable = 0
    for link in reported:
        target = reading.resolve(link.url)
        if target is None:
            unusable += 1
        else:
            known.add(target, one_line(link.anchor, ANCHOR_LENGTH_MAX), rel_tokens(link.rel))
    return known.all(), unusable
