"""The scope check: which URLs are in or out of a collection, and by which rule.

A dry run: before anything is started, without a single request. Promises: the rules are those of the crawl itself
(`crawl/scope/scope_rules.py`); a line that is no URL gets its verdict like the others; what cannot be known before is
said once, for all of them.
"""

from collections.abc import Callable, Iterable

import msgspec

from tarrafa.config import Collection
from tarrafa.coordinator.field_texts import Words
from tarrafa.coordinator.field_texts.english import ENGLISH
from tarrafa.crawl.scope.collection_loader import parse_root, url_identity_of
from tarrafa.crawl.scope.scope_rules import ScopeRules
from tarrafa.errors import ConfigError
from tarrafa.i18n import translator

URLS_MAX = 10_000
URL_CHARS_SHOWN = 2_048
NOT_A_URL = "no url"


class ScopeVerdict(msgspec.Struct, frozen=True):
    """One line that was pasted. `rule` is its name, `what` the pattern, host or type that the sentence speaks of."""

    url: str
    canonical: str
    inside: bool
    rule: str
    what: str
    sentence: str


def check_urls(
    collection: Collection,
    urls: Iterable[str],
    is_taken_down: Callable[[str], bool] = lambda url: False,
    words: Words = ENGLISH,
) -> list[ScopeVerdict]:
    """One verdict for each line that is not empty, in their order."""
    _ = translator(words.code)
    rules, identity = ScopeRules(collection, is_taken_down), url_identity_of(collection)
    verdicts: list[ScopeVerdict] = []
    for line in urls:
        text = line.strip()
        if not text:
            continue
        if len(verdicts) == URLS_MAX:
            raise ConfigError(f"more than {URLS_MAX:,} URLs; judge them in parts")
        shown, url = text[:URL_CHARS_SHOWN], parse_root(text, identity)
        if url is None:
            verdicts.append(ScopeVerdict(shown, "", False, NOT_A_URL, "", _("it is no http(s) URL or host name")))
            continue
        found = rules.decide(url)
        verdicts.append(ScopeVerdict(shown, url, found.inside, found.rule.value, found.what, _.render(found.reason)))
    return verdicts


def unknown_before_crawl(collection: Collection, words: Words = ENGLISH) -> list[str]:
    """What no dry run can know of this collection."""
    scope, notes = collection.scope, words.notes
    found = [notes["robots" if collection.politeness.robots == "obey" else "no robots"]]
    if scope.depth_max is not None:
        found.append(notes["depth"].format(scope.depth_max))
    limits = {"pages_max": scope.pages_max, "requests_max": scope.requests_max, "host_pages_max": scope.host_pages_max}
    found.append(notes["limits"].format(", ".join(f"{key} = {value}" for key, value in limits.items() if value)))
    if scope.languages or scope.keep != "all":
        found.append(notes["kept"])
    return found
