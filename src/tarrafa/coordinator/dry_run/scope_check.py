"""The scope check: which URLs are in or out of a collection, and by which rule.

A dry run: before anything is started, without a single request. Promises: the rules are those of the crawl itself
(`crawl/scope/scope_rules.py`); a line that is no URL gets its verdict like the others; what cannot be known before is
said once, for all of them.
"""

from collections.abc import Callable, Iterable

import msgspec

from tarrafa.config import Collection
from tarrafa.crawl.scope.collection_loader import parse_root, url_identity_of
from tarrafa.crawl.scope.scope_rules import ScopeRules
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message

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
    sentence: Message | str


def check_urls(
    collection: Collection,
    urls: Iterable[str],
    is_taken_down: Callable[[str], bool] = lambda url: False,
) -> list[ScopeVerdict]:
    """One verdict for each line that is not empty, in their order."""
    rules, identity = ScopeRules(collection, is_taken_down), url_identity_of(collection)
    verdicts: list[ScopeVerdict] = []
    for line in urls:
        text = line.strip()
        if not text:
            continue
        if len(verdicts) == URLS_MAX:
            raise ConfigError(message("more than {urls_max} URLs; judge them in parts", urls_max=URLS_MAX))
        shown, url = text[:URL_CHARS_SHOWN], parse_root(text, identity)
        if url is None:
            verdicts.append(ScopeVerdict(shown, "", False, NOT_A_URL, "", message("it is no http(s) URL or host name")))
            continue
        found = rules.decide(url)
        verdicts.append(ScopeVerdict(shown, url, found.inside, found.rule.value, found.what, found.reason))
    return verdicts


def unknown_before_crawl(collection: Collection) -> list[Message | str]:
    """What no dry run can know of this collection."""
    scope, found = collection.scope, list[Message | str]()
    if collection.politeness.robots == "obey":
        found.append(message("robots.txt is not asked for in a dry run: it may still forbid a page"))
    else:
        found.append(message("robots.txt is not obeyed in this collection"))
    if scope.depth_max is not None:
        found.append(
            message(
                "how deep a URL lies is not known before the crawl: beyond depth_max = {depth} it is out",
                depth=scope.depth_max,
            )
        )
    limits = {"pages_max": scope.pages_max, "requests_max": scope.requests_max, "host_pages_max": scope.host_pages_max}
    shown = ", ".join(f"{key} = {value}" for key, value in limits.items() if value)
    found.append(message("once the limits are reached ({limits}) nothing more is fetched, in or out", limits=shown))
    if scope.languages or scope.keep != "all":
        found.append(message("whether a page is kept, its content decides: its language, its data"))
    return found
