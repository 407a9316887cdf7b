"""Texts of the web interface: one struct per language, and translation of search messages.

Every sentence that people read on the pages, in one place per language: `english`, `portuguese`; another language is
another `Texts`, and one more name in `choosing`. Values are put in by name; what they hold is escaped by the
templates.
"""

import re
from functools import cache
from http import HTTPStatus

import msgspec

from tarrafa.model import STATUS_MEANING

Rows = tuple[tuple[str, str], ...]


class Texts(msgspec.Struct, frozen=True):
    """The words of the interface in one language."""

    code: str
    name: str  # of the language, in itself
    thousands: str
    decimal: str

    # every page
    tagline: str
    skip: str
    search_label: str
    search_hint: str
    search_button: str
    help: str
    crawl: str
    interface: str
    suggestions: str

    # the first page
    searchable: str
    searchable_one: str
    nothing_searchable: str
    how: str
    how_more: str

    # choices
    filters: str
    language_menu: str
    any_language: str
    time_menu: str
    any_time: str
    times: dict[str, str]
    range: str
    range_from: str
    range_to: str
    range_between: str
    range_since: str
    range_until: str
    apply: str
    sort_menu: str
    sorts: dict[str, str]
    options: str
    switches: dict[str, str]
    switch_hints: dict[str, str]
    clear: str
    in_collection: str
    languages: dict[str, str]

    # results
    results_title: str
    results_for: str
    related_title: str
    related_to: str
    found: str
    found_one: str
    beyond: str
    deepest: str
    meant: str
    ignored: str
    expanded: str
    instead_some: str
    instead: str
    shard_away: str
    nothing_found: str
    known_address: str
    nothing_alike: str
    nothing_found_hint: str
    try_any_word: str
    try_everywhere: str
    rank: str
    score: str
    pinned: str
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
    same_site: str
    more_like: str
    more_like_this: str
    why: str
    why_this: str
    relations: str
    relations_of: str
    declares: str
    more_of_kind: str
    terms: dict[str, str]  # what classes and properties are called, where their own names will not do
    updated: str
    pages: str
    previous: str
    next: str
    untitled: str
    formats: str

    # why this result
    why_title: str
    why_sum: str
    why_kinds: dict[str, str]
    why_factor: str
    why_none: str
    back_to_results: str

    # things
    data: str
    data_heading: str
    data_label: str
    data_hint: str
    data_choose: str
    data_chosen: str
    data_lists: dict[str, str]
    data_not: str
    data_not_this: str
    data_not_this_one: str
    data_any_property: str
    data_conditions: str
    comparisons: dict[str, str]
    compare: str
    any_value: str
    take_away: str
    all_names: str
    filter_names: str
    names_none: str
    back_to_things: str
    on_pages: str
    things_found: str
    things_one: str
    things_many: str
    things_none: str
    things_none_hint: str
    things_beyond: str
    begin_again: str
    said_by: str
    pages_more: str
    properties_more: str
    values_more: str
    pages_of_kind: str
    more_such_things: str
    thing_unnamed: str
    thing_pages: str
    thing_pages_one: str
    thing_latest: str
    only_mentioned: str
    declares_here: str
    data_none: str
    data_none_hint: str
    unknown_thing: str
    no_thing: str
    help_data: str
    help_data_rows: Rows

    # a page, a site
    live: str
    similar_pages: str
    linked_from: str
    links_to: str
    linked_from_none: str
    links_to_none: str
    status: str
    rank_of: str
    rank_mean: str
    known_since: str
    last_visit: str
    last_change: str
    never_visited: str
    changes: str
    changes_a_day: str
    changes_every: str
    versions: str
    versions_seen: str
    depth: str
    depth_unknown: str
    collections: str
    visits: str
    visit_when: str
    visit_bytes: str
    visit_text: str
    visit_changed: str
    visit_same: str
    words: str
    words_more: str
    out_hosts: str
    site: str
    site_of: str
    host: str
    as_of: str
    site_known: str
    site_visited: str
    site_fetched: str
    site_indexed: str
    site_errors: str
    site_rank: str
    site_hosts: str
    site_in: str
    site_out: str
    site_in_none: str
    site_out_none: str
    site_search: str
    urls: str
    links: str
    waiting: str
    delay: str
    delay_s: str
    robots: str
    robots_never: str
    failures: str
    frontier_silent: str
    statuses: dict[int, str]

    # the crawl
    crawl_none: str
    workers: str
    known: str
    fetched: str
    pending: str
    failed: str
    hosts: str
    pages_per_s: str
    state: str

    # asking by SPARQL
    sparql: str
    suggest_site: str
    sparql_title: str
    sparql_intro: str
    sparql_none: str
    sparql_query: str
    sparql_run: str
    sparql_running: str
    sparql_part: str
    sparql_all_parts: str
    sparql_results: str
    sparql_cut: str
    sparql_examples_title: str
    sparql_examples: dict[str, str]

    # help
    help_title: str
    help_words: str
    help_words_rows: Rows
    help_conditions: str
    help_conditions_rows: Rows
    help_sameness: str
    help_switches: str
    help_keys: str
    help_keys_rows: Rows
    help_programs: str
    help_programs_rows: Rows

    # what goes wrong
    problem: str
    unknown_url: str
    taken_down: str
    no_url: str
    unknown_site: str
    no_site: str
    no_such_page: str
    not_yet: str
    no_links_yet: str
    only_here: str
    internal: str
    sentences: dict[str, str]  # of the search itself, which speaks English: {} stands for what changes
    troubles: dict[str, str]  # likewise, why another machine does not answer


def status_text(status: int | None, texts: Texts) -> str:
    """`404 Not Found`, or what our own negative codes mean."""
    if status is None:
        return texts.never_visited
    meaning = texts.statuses.get(status, "")
    if not meaning:
        try:
            meaning = HTTPStatus(status).phrase
        except ValueError:
            meaning = ""
    return f"{status} {meaning}".strip()


def trouble_text(trouble: str, texts: Texts) -> str:
    """What a worker wrote down of a host: what its status means, and then what the connection said."""
    for status, english in ((status, str(meaning)) for status, meaning in STATUS_MEANING.items()):
        if status in texts.statuses and (trouble == english or trouble.startswith(f"{english} ")):
            return texts.statuses[status] + trouble[len(english) :]
    return trouble


def translated(sentence: str, texts: Texts) -> str | None:
    """A sentence of the search in this language; None where only the English one is known."""
    for pattern, template in _patterns(texts.code, (*texts.sentences.items(), *texts.troubles.items())):
        match = pattern.fullmatch(sentence)
        if match is not None:
            return template.format(*(_number_again(value, texts) for value in match.groups()))
    return None


def _number_again(value: str, texts: Texts) -> str:
    return value.replace(",", texts.thousands) if value.replace(",", "").isdigit() else value


@cache
def _patterns(code: str, sentences: Rows) -> list[tuple[re.Pattern[str], str]]:
    return [
        (re.compile("(.*)".join(map(re.escape, english.split("{}"))), re.DOTALL), template)
        for english, template in sentences
    ]
