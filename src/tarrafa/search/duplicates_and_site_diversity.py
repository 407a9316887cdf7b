"""Duplicates and site diversity: copies of a page are one hit, and one site does not crowd the first page of results.

Every page is in exactly one group; two groups never hold exact copies of each other; a URL that several collections
hold counts once. The position of a group and its representative are fixed in the block where the group first
appears; later blocks only add copies, so that pages of results stay consistent.

Exact copies have the same content id. Near copies have the same title, at least NEAR_WORDS_MIN words
(index/document_fields.py) and simhashes that differ in at most NEAR_BITS of 64 bits. Candidates are compared with
the best page of a group only, because similarity is not transitive.

Measured: of 309 real Portuguese texts no two are nearer than 15 bits; with two words changed in 400, 80 % are within 3
bits, in 1,500 words 97 %. Of 2,000 pages of the synthetic Web, 27 pairs of different pages are within 3 bits (6 bits:
1,412) but none of these pairs has the same title: that is why titles must agree. Of its 56 pairs of a page and its
printable version, which lacks the menus, 16 are within 3 bits (6 bits: 31). (Measured when a simhash was of all text:
now it is of the main content where that is long enough, see parse/fingerprint.) Where a whole site has one title, 3 %
of the pairs of pages with 10 % of their words to themselves are within 3 bits, and one in six of the pairs with 5 % (6
bits: 20 % and two in three). Hence the limit of 3 bits, and hence users can list the copies of a hit.

A page that names another URL as its canonical one joins the page of that URL, and the pages that name the same. What a
page says of itself is not trusted alone: pages of different sites must be near copies (CANONICAL_BITS); pages of one
site must have the same title, or no clearly different text (SAME_SITE_BITS; many systems name the home page on every
page). The canonical page represents the group if the page that would represent it names that page: nobody else can take
its place.

Site diversity: within a block of hits, a site's third page and those after it move behind the pages of other sites, and
score no more than those: no page is hidden, the first page of results shows several sites, and hits are in the order of
their scores on every page of results (pinned pages precede them).
"""

from typing import NamedTuple

import msgspec

from tarrafa.index.document_fields import split_url_id
from tarrafa.model import UrlId
from tarrafa.search.request import Candidate

NEAR_BITS = 3
CANONICAL_BITS = 6  # of pages of two sites with one canonical URL: the title of a copy may be another
SAME_SITE_BITS = 16  # of pages of one site with one canonical URL; unrelated texts differ in 32
CANONICAL_STEPS_MAX = 3  # from a page to its canonical page, and on to the canonical page of that
COMPARED_MAX = 50  # newest groups of the same title: a whole site may share one title, and copies rank side by side
NEAR_SCORE = 0.05
HITS_PER_SITE = 2  # hits of one site that keep their place in a block
_64_BITS = (1 << 64) - 1


class RankedCandidate(NamedTuple):
    """A candidate, the response that it came in, and the factor of its score where its site has better pages."""

    candidate: Candidate
    answer: int
    site_factor: float = 1.0


DuplicateGroup = list[RankedCandidate]  # copies of one page: the representative first, with the best score of the group
NearDuplicates = list[tuple[int, DuplicateGroup]]  # groups with the same title, each with the simhash of its best page


class Deduplicator:
    """Groups of copies, block by block. `apart`: every page is a group of its own."""

    def __init__(self, apart: bool = False) -> None:
        self.all: list[DuplicateGroup] = []
        self.looked = 0  # pages so far, repeated URLs included
        self._apart = apart
        self._urls: set[UrlId] = set()
        self._by_content: dict[int | None, DuplicateGroup] = {}
        self._by_headline: dict[int | None, NearDuplicates] = {}
        self._by_canonical: dict[int, list[tuple[Candidate, DuplicateGroup]]] = {}

    def add(self, block: list[RankedCandidate]) -> None:
        """Add the next block, best candidate first."""
        before, urls, contents = len(self.all), self._urls, self._by_content
        self.looked += len(block)
        for one in block:
            candidate = one[0]
            key, content, simhash, headline = candidate.id, candidate.content, candidate.simhash, candidate.headline
            if key in urls:
                continue
            urls.add(key)
            if self._apart:
                self.all.append([one])
                continue
            group = contents.get(content)
            if group is not None:
                group.append(one)
                continue
            near = self._by_headline.get(headline)
            is_alone = near is None and not self._by_canonical and candidate.canonical is None
            group = None if is_alone else self._group_for(candidate)
            if group is not None:
                group.append(one)
            else:
                group = [one]
                self.all.append(group)
                if simhash is not None and near is None:
                    self._by_headline[headline] = [(simhash, group)]
                elif simhash is not None and near is not None:
                    near.append((simhash, group))
            if self._by_canonical or candidate.canonical is not None:
                self._register(candidate, group)
            if content is not None:
                contents[content] = group
        for group in self.all[before:]:
            if len(group) > 1:
                _choose_representative(group)

    def _group_for(self, candidate: Candidate) -> DuplicateGroup | None:
        """The group of near copies of a page, or of pages with its canonical URL."""
        near, simhash = self._by_headline.get(candidate.headline), candidate.simhash
        group = _nearest(near, simhash) if near is not None and simhash is not None else None
        if group is None and (self._by_canonical or candidate.canonical is not None):
            group = self._same_page(candidate)
        return group

    def _same_page(self, candidate: Candidate) -> DuplicateGroup | None:
        """The group of a page that has, or names, the same canonical URL."""
        if not self._by_canonical:  # it is the first one that names another
            for group in self.all:
                for one in group:
                    self._register(one.candidate, group)
        for named in _names(candidate):
            for other, group in self._by_canonical.get(named, ())[-COMPARED_MAX:]:
                if _may_be_one_page(candidate, other):
                    return group
        return None

    def _register(self, candidate: Candidate, group: DuplicateGroup) -> None:
        for named in _names(candidate):
            self._by_canonical.setdefault(named, []).append((candidate, group))

    def group_of(self, key: UrlId) -> DuplicateGroup:
        """The group of a URL; empty if there is none."""
        return next((group for group in self.all for one in group if one.candidate.id == key), [])


def _nearest(groups: NearDuplicates, simhash: int) -> DuplicateGroup | None:
    """The best group among the near duplicates."""
    for other, group in groups[-COMPARED_MAX:]:
        if ((other ^ simhash) & _64_BITS).bit_count() <= NEAR_BITS:  # signed numbers: the mask removes the sign
            return group
    return None


def _names(candidate: Candidate) -> tuple[int, ...]:
    """The first halves of the ids of a page's own URL and of its canonical one."""
    own = split_url_id(candidate.id)[0]
    return (own,) if candidate.canonical is None else (candidate.canonical, own)


def _may_be_one_page(one: Candidate, other: Candidate) -> bool:
    """Whether two pages that share a canonical URL may be copies."""
    if one.canonical is None and other.canonical is None:
        return False
    are_known = one.simhash is not None and other.simhash is not None
    bits = (((one.simhash or 0) ^ (other.simhash or 0)) & _64_BITS).bit_count()
    if one.site != other.site:
        return are_known and bits <= CANONICAL_BITS
    return not are_known or one.headline == other.headline or bits <= SAME_SITE_BITS


def _choose_representative(group: DuplicateGroup) -> None:
    """Choose the plainest page among those with nearly the best score as the representative of the group, or the
    canonical page that it names.
    """
    best = chosen = group[0]
    least = best.candidate.score * (1 - NEAR_SCORE)
    for one in group:
        if one.candidate.score >= least and _plainness(one) < _plainness(chosen):
            chosen = one
    if chosen.candidate.canonical is not None:
        members = {split_url_id(one.candidate.id)[0]: one for one in group}
        for _ in range(CANONICAL_STEPS_MAX):
            chosen = members.get(chosen.candidate.canonical or 0, chosen)
    if chosen is not best:
        group.remove(chosen)
        raised = msgspec.structs.replace(chosen.candidate, score=best.candidate.score)
        group.insert(0, chosen._replace(candidate=raised))


def _plainness(one: RankedCandidate) -> tuple[bool, int, int, UrlId]:
    """Sort key: pages with in-links first, then shorter URLs, then more in-links."""
    return not one.candidate.in_links, one.candidate.url_length or 0, -one.candidate.in_links, one.candidate.id


# -- site diversity ----------------------------------------------------------------------------------------------------


def diversify_sites(groups: list[DuplicateGroup]) -> list[DuplicateGroup]:
    """The groups of a block: the third one of a site and those after it behind the others, with a score that is no
    higher than that of the last one before them.
    """
    seen: dict[int, int] = {}
    first: list[DuplicateGroup] = []
    later: list[DuplicateGroup] = []
    for group in groups:
        site = group[0].candidate.site
        place = seen[site] = seen.get(site, 0) + 1
        (first if place <= HITS_PER_SITE else later).append(group)
    for group in later:
        (best, answer, _), least = group[0], first[-1][0].candidate.score
        if best.score > least:
            group[0] = RankedCandidate(msgspec.structs.replace(best, score=least), answer, least / best.score)
    return first + later
