"""Every preset is a collection that does what its title says."""

import tomllib
from itertools import product

import pytest

from tarrafa.config import Collection
from tarrafa.coordinator.definitions.presets import (
    COMMENTS,
    PRESETS,
    TITLES,
    PresetRequest,
    preset_table,
    preset_titles,
    preset_toml,
)
from tarrafa.coordinator.dry_run.dry_run import check_urls
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.errors import ConfigError
from tarrafa.i18n import LANGUAGES

ROOTS = ["https://www.ufmg.br/", "http://a.blog.org.br:8080/x/y?z=1", "ufmg.br", "http://192.0.2.1/", "http://[2001:db8::1]/",
         "https://são.br/ação/*[1]/"]  # fmt: skip


def made(name: str, root: str, **more: str) -> Collection:
    return complete_collection(preset_table(name, PresetRequest(root, **more)), "preset")


@pytest.mark.parametrize(("name", "root", "language"), list(product(PRESETS, ROOTS, LANGUAGES)))
def test_a_preset_is_a_valid_collection_with_the_same_meaning_in_every_language(name, root, language):
    wish = PresetRequest(root, "my-name", "br", 'me "too" \\ me@a.br')
    text = preset_toml(name, wish, language, "a file.toml")
    assert tomllib.loads(text) == preset_table(name, wish)
    collection = complete_collection(tomllib.loads(text), "preset")
    assert collection.politeness.contact == wish.contact
    assert preset_titles(language)[name] in text
    assert max(map(len, text.splitlines())) <= 120


def test_every_key_of_every_preset_has_its_reason_and_no_reason_is_for_nothing():
    used = set[str]()
    for name in PRESETS:
        for section, values in preset_table(name, PresetRequest("www.a.br")).items():
            for key in [f"{section}.{key}" for key in values] if isinstance(values, dict) else [section]:
                own = f"{name} {key}"
                assert own in COMMENTS or key in COMMENTS or key in ("name", "fetch.feeds"), own
                used.add(own if own in COMMENTS else key)
    assert set(COMMENTS) <= used
    assert set(TITLES) == set(PRESETS)


@pytest.mark.parametrize(
    ("name", "root", "inside", "outside"),
    [
        ("page", "http://www.a.br/x", ["http://www.a.br/x", "https://www.a.br/x", "http://a.br/x"], ["http://b.a.br/"]),
        (
            "directory",
            "http://www.a.br/~maria",
            ["http://www.a.br/~maria/x", "https://a.br/~maria/", "http://www.a.br/~maria"],
            ["http://www.a.br/", "http://www.a.br/~maria2/x", "http://x.a.br/~maria/"],
        ),
        ("directory", "http://a.br/d/index.html", ["http://a.br/d/x/y"], ["http://a.br/dx", "http://a.br/"]),
        ("directory", "http://a.br/d[1]*/", ["http://a.br/d[1]*/x"], ["http://a.br/d1x/x"]),
        ("site", "www.a.br", ["http://a.br/", "https://www.a.br/x"], ["http://x.a.br/", "http://a.br/login"]),
        ("site", "blog.a.br", ["http://blog.a.br/x"], ["http://www.blog.a.br/", "http://a.br/"]),
        ("subdomains", "www.dcc.ufmg.br", ["http://ufmg.br/", "http://x.y.ufmg.br/"], ["http://usp.br/"]),
        ("subdomains", "www.a.com.br", ["http://a.com.br/", "http://x.a.com.br/"], ["http://b.com.br/"]),
        ("country", "www.a.pt", ["http://b.pt/", "http://x.y.pt/"], ["http://b.br/"]),
        ("rdfa", "www.a.br", ["http://b.a.br/"], ["http://b.br/"]),
        ("legal-deposit", "www.a.br", ["http://b.a.br/x.pdf"], ["http://b.a.br/x.mp4", "http://b.br/"]),
        ("breadth", "www.a.br", ["http://b.br/"], ["http://b.pt/"]),
    ],
)
def test_a_preset_takes_in_what_its_title_says(name, root, inside, outside):
    collection = made(name, root)
    assert [(one.url, one.rule) for one in check_urls(collection, inside) if not one.inside] == []
    assert [(one.url, one.rule) for one in check_urls(collection, outside) if one.inside] == []


def test_a_country_is_named_or_found_in_the_roots_name():
    assert made("country", "www.a.com", country=".PT").scope.hosts == ("*.pt",)
    with pytest.raises(ConfigError, match="name the country"):
        preset_table("country", PresetRequest("http://192.0.2.1/"))
    with pytest.raises(ConfigError, match="no top-level domain"):
        preset_table("country", PresetRequest("a.br", country="b r"))


def test_what_is_no_preset_no_root_and_no_language_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="there are: page, directory"):
        preset_table("everything", PresetRequest("a.br"))
    with pytest.raises(ConfigError, match="root: not an http"):
        preset_table("site", PresetRequest("nonsense"))
    with pytest.raises(ConfigError, match="allowed: en, pt"):
        preset_toml("site", PresetRequest("a.br"), "xx")
