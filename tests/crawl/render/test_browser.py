"""A machine without a browser that can be held."""

import pytest

from tarrafa.config.sections import Collection, RenderConfig
from tarrafa.crawl.render import browser
from tarrafa.crawl.render.browser import RenderUnavailable, check_browser
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import ConfigError


class NoFrontier:
    """Fails at any call."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the frontier was asked for {name}")


async def test_collection_with_rendering_is_refused_where_no_browser_is_installed(monkeypatch):
    monkeypatch.setattr(browser, "find_browser", lambda: None)
    collection = Collection(name="c", roots=("http://a.br/",), render=RenderConfig(when="auto"))
    with pytest.raises(ConfigError, match=r"c: \[render\] when: no Chromium is installed"):
        await submit_collection(NoFrontier(), collection)  # type: ignore[arg-type]


async def test_browser_that_does_not_come_up_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(browser, "find_browser", lambda: "/bin/false")
    with pytest.raises(RenderUnavailable, match="cannot be started here with its sandbox"):
        await check_browser("c")


async def test_browser_is_never_started_without_its_sandbox(monkeypatch):
    monkeypatch.setattr(browser, "find_browser", lambda: "/bin/cat")
    monkeypatch.setattr(browser, "SWITCHES", ("--no-sandbox",))
    with pytest.raises(RenderUnavailable):
        await check_browser("c")
