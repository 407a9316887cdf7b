"""The shape of the link graph."""

from collections import Counter

from tarrafa.testweb import World
from tarrafa.testweb.world.page_links import menu_links, outlinks
from tarrafa.testweb.world.resources import PageRole, Resource, ResourceKind, role_of

WORLD = World(seed=6, hosts=60, pages=3000)
PAGES = [Resource(ResourceKind.PAGE, no, n) for no in range(1, 61) for n in range(WORLD.host(no).pages)]
LINKS = {page: outlinks(WORLD, page) for page in PAGES}


def share_of_the_top_tenth(counts: list[int]) -> float:
    ranked = sorted(counts, reverse=True)
    return sum(ranked[: len(ranked) // 10]) / sum(ranked)


def test_famous_hosts_get_most_of_the_links_from_elsewhere():
    received = Counter(link.to.no for page in PAGES for link in LINKS[page] if link.to.no != page.no)
    assert set(received) | {1} == set(range(1, 61)), "nobody is forgotten"
    assert share_of_the_top_tenth([received[no] for no in range(1, 61)]) > 0.25
    assert {no for no, _ in received.most_common(6)} & set(WORLD.famous[:6])


def test_popular_pages_get_most_of_the_links_inside():
    no = max(range(1, 61), key=lambda no: WORLD.host(no).pages)
    received = Counter(
        link.to.n
        for page in PAGES
        if page.no == no
        for link in LINKS[page][len(menu_links(WORLD, no)) :]
        if link.to.no == no
    )
    assert share_of_the_top_tenth([received[n] for n in range(WORLD.host(no).pages)]) > 0.3


def test_every_page_has_a_dozen_links_or_more_where_the_host_has_pages_enough():
    counts = [len({link.to for link in LINKS[page]}) for page in PAGES if WORLD.host(page.no).pages > 30]
    assert 12 < sum(counts) / len(counts) < 40
    assert min(counts) > 5


def test_every_spelling_is_used_inside_and_outside():
    for inside in (True, False):
        used = {link.variant for page in PAGES for link in LINKS[page] if (link.to.no == page.no) is inside}
        assert used == set(range(16))


def test_tail_pages_are_linked_only_as_their_role_says():
    sources: dict[Resource, list[tuple[Resource, bool]]] = {page: [] for page in PAGES}
    for page in PAGES:
        for link in LINKS[page]:
            if link.to.kind is ResourceKind.PAGE:
                sources[link.to].append((page, link.nofollow))
    met: Counter[PageRole] = Counter()
    for page in PAGES:
        host = WORLD.host(page.no)
        part = role_of(host, page.n)
        if part is PageRole.OPEN:
            continue
        met[part] += 1
        if part in (PageRole.ORPHAN, PageRole.MOVED):
            assert sources[page] == []
        elif part is PageRole.NOFOLLOW_ONLY:
            assert [nofollow for _, nofollow in sources[page]] == [True]
        elif part in (PageRole.BEHIND_PRIVATE, PageRole.BEHIND_DEAD_END):
            before = Resource(ResourceKind.PAGE, page.no, page.n - 1)
            assert [source for source, _ in sources[page]] == [before]
            assert role_of(host, before.n) in (PageRole.PRIVATE, PageRole.DEAD_END)
        else:
            assert len(sources[page]) == 1
    assert set(met) == set(PageRole) - {PageRole.OPEN}


def test_links_do_not_depend_on_who_was_asked_before():
    again = World(seed=6, hosts=60, pages=3000)
    for page in reversed(PAGES[::37]):
        assert outlinks(again, page) == LINKS[page]
