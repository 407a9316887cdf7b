"""Data directories, and the example served over them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.auth import passwords
from tests.server.console.coordinator_site import CoordinatorSite, coordinator_site
from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ExampleSite

REAL = passwords._hasher


@pytest.fixture(scope="package", autouse=True)
def quick() -> Iterator[None]:
    """Passwords that cost next to nothing, where it is not about them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passwords, "_hasher", PasswordHasher(1, 8, 1))
        yield


@pytest.fixture
def dear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords as they are."""
    monkeypatch.setattr(passwords, "_hasher", REAL)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleSite]:
    """A site with an admin, a viewer and a token."""
    directory = DataDirectory(tmp_path_factory.mktemp("known") / "d")
    directory.create()
    with ExampleSite(directory, token=TOKEN) as site:
        site.add(ADMIN, "admin")
        site.add(VIEWER, "viewer")
        yield site


@pytest.fixture(scope="package")
def furnished(tmp_path_factory: pytest.TempPathFactory, quick: None) -> Iterator[CoordinatorSite]:
    """The real thing, with one collection that was crawled. Whoever changes something leaves it as it was."""
    with coordinator_site(tmp_path_factory.mktemp("furnished")) as site:
        yield site
