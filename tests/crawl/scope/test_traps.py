"""Where there is no end: by the looks of a URL, and by what its host has been saying."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.config.sections import ScopeConfig
from tarrafa.crawl.scope.traps import STALE_RUN_MAX, TrapMemory, trap_reason, url_template_id
from tarrafa.model import Page, Status, Visit
from tarrafa.parse.fingerprint import compute_fingerprints
from tarrafa.parse.url import host_id, host_key, url_id

HOST = "http://a.br"
SCOPE = ScopeConfig(copies_max=3, alike_max=10)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/a/a/a/x", "/a is repeated"),
        ("/x/a/b/a/b/a/b/y", "/a/b is repeated"),
        ("/sub/sub/sub/page.html", "/sub is repeated"),
        ("/" + "/".join(str(n) for n in range(30)), "more than 25 path segments"),
        ("/x?" + "&".join(f"k{n}={n}" for n in range(30)), "more than 20 parameters"),
        ("/2026/11/2026/11/2026/11/", "is repeated"),
    ],
)
def test_a_url_that_repeats_or_never_stops_looks_endless(path, why):
    assert why in str(trap_reason(HOST + path))


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/a/a/x",
        "/a/b/a/c/a/d",
        "/2026/11/11/11.html",
        "//////",
        "/a//b//c//d",
        "/x?a=1&b=2",
        "/docs/api/v1/docs/api/v2",
        "/x?u=" + "/".join(str(n) for n in range(30)),
        "/" + "&".join(f"k{n}" for n in range(30)),
    ],
)
def test_an_ordinary_url_does_not(path):
    assert trap_reason(HOST + path) is None


@given(st.lists(st.sampled_from(["a", "b", "c", "", "1"]), max_size=40))
def test_the_repeated_stretch_is_found_as_its_definition_says(segments):
    url = HOST + "/" + "/".join(segments)
    path = url.removeprefix(HOST).split("/")[1:]
    found = any(
        path[start : start + size] * 3 == path[start : start + 3 * size] and "" not in path[start : start + size]
        for size in range(1, 6)
        for start in range(len(path))
        if start + 3 * size <= len(path)
    )
    long = url.count("/") - 2 > 25
    assert bool(trap_reason(url)) == (found or long)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/noticia/1.html", "/noticia/2345.html", True),
        ("/p?id=1&sid=abc", "/p?sid=def&id=9", True),
        ("/p?id=1", "/p?page=1", False),
        ("/s/8f3a9c2e1b7d6f50/x", "/s/00ff9c2e1b7d6faa/x", True),
        ("/um-titulo", "/outro-titulo", False),
    ],
)
def test_urls_of_one_template_have_one_pattern(one, other, same):
    assert (url_template_id(HOST + one) == url_template_id(HOST + other)) is same


def visit(url: str, content: str | None = None) -> Visit:
    return Visit(1, host_id(host_key(url)), url_id(url), url, 1, 0, 1, content_id=content)


def page(url: str, text: str) -> Page:
    prints = compute_fingerprints(f"\n{text}")
    return Page(url, text=text, content_id=prints.content_id, wording=prints.wording)


def meet(memory: TrapMemory, path: str, text: str) -> int:
    return memory.check_page(page(HOST + path, text), visit(HOST + path))


def test_the_same_text_under_many_names_is_a_copy_after_the_first_few():
    memory = TrapMemory(scope=SCOPE)
    said = [meet(memory, f"/{word}", "Página não encontrada") for word in ("a", "b", "c", "d", "e")]
    assert said == [0, 0, 0, Status.COPY, Status.COPY]
    assert meet(memory, "/f", "Uma notícia") == 0


def test_pages_that_differ_only_in_numbers_are_copies_after_some_more():
    memory = TrapMemory(scope=SCOPE)
    said = [meet(memory, f"/agenda/{day}", f"Nada em {day}") for day in range(12)]
    assert said == [0] * 10 + [Status.COPY] * 2
    assert meet(memory, "/outra/1", "Nada em 99") == 0, "another template is judged by itself"


def test_a_pattern_that_has_had_nothing_new_for_long_is_not_asked_for_any_more():
    memory = TrapMemory(scope=SCOPE)
    for number in range(10 + STALE_RUN_MAX):
        assert not memory.is_barren(f"{HOST}/agenda/{number}")
        meet(memory, f"/agenda/{number}", f"Nada em {number}")
    assert any(memory.is_barren(f"{HOST}/agenda/{number}") for number in (77777, 77778))
    assert not memory.is_barren(f"{HOST}/noticia/1")


def test_a_pattern_that_had_much_to_say_is_not_barren_after_a_few_dead_pages():
    memory = TrapMemory(scope=SCOPE)
    for number in range(200):
        meet(memory, f"/p?id={number}", f"notícia {chr(97 + number % 26)} {chr(97 + number // 26)} ")
    for number in range(200, 300):
        meet(memory, f"/p?id={number}", "não existe")
    assert not memory.is_barren(f"{HOST}/p?id=1000")


def test_of_a_barren_pattern_one_in_some_is_looked_at_and_may_redeem_it():
    memory = TrapMemory(scope=SCOPE)
    for number in range(100):
        meet(memory, f"/agenda/{number}", f"Nada em {number}")
    probes = [number for number in range(1000) if not memory.is_barren(f"{HOST}/agenda/{number}")]
    assert 5 <= len(probes) <= 40
    meet(memory, f"/agenda/{probes[0]}", "Festa na praia")
    assert not memory.is_barren(f"{HOST}/agenda/7")


def test_each_collection_has_its_own_experience_and_new_limits_begin_it_anew():
    memory = TrapMemory(scope=SCOPE)
    for number in range(100):
        meet(memory, f"/{number}", "igual")
    content = memory.encode_if_changed()
    assert content is not None
    assert meet(TrapMemory(content, SCOPE), "/x", "igual") == Status.COPY
    assert meet(TrapMemory(content, SCOPE, collection=2), "/x", "igual") == 0
    assert meet(TrapMemory(content, ScopeConfig(copies_max=4)), "/x", "igual") == 0


def test_a_page_with_news_forgives_its_pattern():
    memory = TrapMemory(scope=SCOPE)
    for number in range(300):
        meet(memory, f"/p/{number}", "o mesmo" if number % STALE_RUN_MAX else f"novidade {chr(97 + number % 26)}" * 3)
    assert not memory.is_barren(f"{HOST}/p/1")


def test_a_revisit_is_no_copy_and_a_page_without_words_is_like_no_other():
    memory = TrapMemory(scope=SCOPE)
    for number in range(20):
        url = f"{HOST}/{number}"
        assert memory.check_page(page(url, "igual"), visit(url, "known")) == 0
        assert memory.check_page(page(url, ""), visit(url)) == 0


def test_what_was_learned_is_handed_on_bounded_and_small_hosts_are_forgotten():
    memory = TrapMemory(scope=SCOPE)
    meet(memory, "/1", "um")
    assert memory.encode_if_changed() is None
    for number in range(5_000):
        meet(memory, f"/x{chr(97 + number % 26)}/{number}", f"texto {number}" if number % 3 else "igual")
    content = memory.encode_if_changed()
    assert content is not None
    assert len(content) < 16_000
    assert memory.encode_if_changed() is None, "nothing new since"
    heir = TrapMemory(content, SCOPE)
    assert meet(heir, "/y", "igual") == Status.COPY
    assert TrapMemory(b"rubbish").encode_if_changed() is None
