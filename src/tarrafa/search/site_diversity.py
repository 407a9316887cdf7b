"""Site diversity: one site does not crowd the first page of results.

Within a block of hits, a site's third page and those after it move behind the pages of other sites, and score no more
than those: no page is hidden, the first page of results shows several sites, and hits are in the order of their scores
on every page of results (pinned pages precede them).
"""

from collections import Counter

import msgspec

from tarrafa.search.duplicates import DuplicateGroup, RankedCandidate

HITS_PER_SITE = 2  # hits of one site that keep their place in a block


def diversify_sites(groups: list[DuplicateGroup]) -> list[DuplicateGroup]:
    """The groups of a block: the third one of a site and those after it behind the others, with a score that is no
    higher than that of the last one before them.
    """
    seen: Counter[int] = Counter()
    first: list[DuplicateGroup] = []
    later: list[DuplicateGroup] = []
    for group in groups:
        site = group[0].candidate.site
        seen[site] += 1
        (first if seen[site] <= HITS_PER_SITE else later).append(group)
    for group in later:
        (best, answer, _), least = group[0], first[-1][0].candidate.score
        if best.score > least:
            group[0] = RankedCandidate(msgspec.structs.replace(best, score=least), answer, least / best.score)
    return first + later
