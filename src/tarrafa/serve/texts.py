"""What does the interface say?

Every sentence that people read on the pages, in one place; another language is another `Texts`.
Values are put in by name; what they hold is escaped by the templates.
"""

from http import HTTPStatus

import msgspec

from tarrafa.model import STATUS_MEANING


class Texts(msgspec.Struct, frozen=True):
    """The words of the interface in one language."""

    code: str
    tagline: str
    skip: str
    search_label: str
    search_hint: str
    search_button: str
    all_words: str
    all_words_hint: str
    searchable: str
    nothing_searchable: str
    results_title: str
    results_for: str
    found: str
    found_one: str
    beyond: str
    nothing_found: str
    nothing_found_hint: str
    rank: str
    score: str
    in_links: str
    in_links_one: str
    in_links_none: str
    copies: str
    copies_one: str
    copies_of: str
    copies_joined: str
    copies_shown: str
    copies_show: str
    copies_join: str
    copies_alike: str
    copies_back: str
    relations: str
    relations_of: str
    updated: str
    language: str
    pages: str
    previous: str
    next: str
    untitled: str
    live: str
    back_to_search: str
    linked_from: str
    links_to: str
    linked_from_none: str
    links_to_none: str
    status: str
    last_visit: str
    never_visited: str
    depth: str
    depth_unknown: str
    collections: str
    crawl: str
    crawl_none: str
    workers: str
    known: str
    fetched: str
    pending: str
    failed: str
    hosts: str
    pages_per_s: str
    state: str
    problem: str
    unknown_url: str
    no_url: str
    no_such_page: str
    not_yet: str
    bad_number: str
    internal: str
    how: str
    how_rows: tuple[tuple[str, str], ...]
    taken_down: str = "This page was taken down: nothing of it is shown here."


ENGLISH = Texts(
    code="en",
    tagline="Cast the net.",
    skip="Skip to the content",
    search_label="Search the pages that were crawled",
    search_hint="Search…",
    search_button="Search",
    all_words="all words",
    all_words_hint="Only pages that hold every word",
    searchable="{count} pages can be searched.",
    nothing_searchable="Nothing can be searched yet: no page has been indexed.",
    results_title="{query} – Tarrafa",
    results_for="Results for {query}",
    found="{total} pages in {seconds} s",
    found_one="1 page in {seconds} s",
    beyond="There are only {total} results.",
    nothing_found="No page was found for “{query}”.",
    nothing_found_hint="Try fewer or other words; accents, capitals and plurals make no difference.",
    rank="Rank",
    score="score {score}",
    in_links="{count} pages link here",
    in_links_one="1 page links here",
    in_links_none="no known links",
    copies="and {count} copies",
    copies_one="and 1 copy",
    copies_of="{copies} of {title}",
    copies_joined="Pages that say the same are shown as one.",
    copies_shown="Every copy is shown.",
    copies_show="Show every copy",
    copies_join="Show copies as one",
    copies_alike="Pages that say the same as “{url}”.",
    copies_back="Back to all results",
    relations="Relations",
    relations_of="Relations of {title}",
    updated="Updated {date}",
    language="Language",
    pages="Pages of results",
    previous="Previous",
    next="Next",
    untitled="(no title)",
    live="Open the live page",
    back_to_search="New search",
    linked_from="Linked from",
    links_to="Links to",
    linked_from_none="No crawled page links here.",
    links_to_none="No links from here are known.",
    status="Status",
    last_visit="Last visit",
    never_visited="never visited",
    depth="Depth",
    depth_unknown="not reached by a followed link",
    collections="Collection",
    crawl="Crawl",
    crawl_none="No collection yet.",
    workers="Workers",
    known="Known",
    fetched="Pages",
    pending="Pending",
    failed="Failed",
    hosts="Hosts",
    pages_per_s="Pages/s",
    state="State",
    problem="That did not work",
    unknown_url="This URL is not known here: no crawled page links to it.",
    no_url="Which page? The address needs ?url= with an http or https URL.",
    no_such_page="There is no such page here.",
    not_yet="Nothing is indexed yet. Start a crawl with “tarrafa crawl FILE”, and search while it runs.",
    bad_number="{name} must be a whole number, not “{value}”.",
    internal="Something went wrong on our side. It was written to the log.",
    how="How to search",
    how_rows=(
        ("net fishing", "pages with any of the words, the best first"),
        ("+net -sea", "“net” must be there, “sea” must not"),
        ("“round net”", "these words next to each other"),
        ("net site:ufmg.br", "only this host and everything below it"),
        ("net host:www.ufmg.br", "only this host"),
        ("rede lang:pt", "only pages in this language"),
    ),
)


def status_text(status: int | None, texts: Texts) -> str:
    """`404 Not Found`, or what our own negative codes mean."""
    if status is None:
        return texts.never_visited
    meaning = STATUS_MEANING.get(status, "")
    if not meaning:
        try:
            meaning = HTTPStatus(status).phrase
        except ValueError:
            meaning = ""
    return f"{status} {meaning}".strip()
