"""Figures: valid, the same bytes each time, and a plain word when they cannot be drawn."""

import builtins
import itertools
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.errors import ConfigError
from tarrafa.simulate.classic_policies import ClassicResult, draw_classic
from tarrafa.simulate.matplotlib_plots import (
    COLOURS,
    Series,
    check_can_plot,
    draw_bars,
    draw_lines,
    spread_labels,
)

pytest.importorskip("matplotlib")

ROWS = [
    ClassicResult(theta=1.0, psp=0.584, mp2=0.596, m_wolf=0.653, inf_crawlers=0.584, wp=0.573, non_polite=0.385),
    ClassicResult(theta=0.0, psp=0.400, mp2=0.427, m_wolf=0.427, inf_crawlers=0.400, wp=0.385, non_polite=0.385),
]


def check(stem: Path) -> None:
    """Both files are what they say they are."""
    png = stem.with_name(f"{stem.name}.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB\x60\x82")
    root = ET.fromstring(stem.with_name(f"{stem.name}.svg").read_text())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_classic_figure_is_written_as_png_and_svg(tmp_path):
    draw_classic(ROWS, tmp_path / "theta-0.5", "Title", "theta", "staleness")
    check(tmp_path / "theta-0.5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["theta-0.5.png", "theta-0.5.svg"]
    svg = (tmp_path / "theta-0.5.svg").read_text().lower()
    assert all(colour.lower() in svg for colour in COLOURS[:6])


@pytest.mark.parametrize("form", ["png", "svg"])
def test_the_same_numbers_give_the_same_bytes(tmp_path, form):
    draw_classic(ROWS, tmp_path / "one", "Title", "theta", "staleness")
    draw_classic(list(reversed(ROWS)), tmp_path / "two", "Title", "theta", "staleness")
    assert (tmp_path / f"one.{form}").read_bytes() == (tmp_path / f"two.{form}").read_bytes()


def test_one_theta_alone_is_drawn(tmp_path):
    draw_classic(ROWS[:1], tmp_path / "one", "Title", "theta", "staleness")
    check(tmp_path / "one")


def test_other_experiments_draw_curves_and_bars_with_one_call(tmp_path):
    day = [hour / 4 for hour in range(97)]
    saw = [hour % 6 / 6 for hour in day]
    draw_lines(tmp_path / "saw", [Series("periodic", day, saw, markers=False)], "Saw", "hour", "staleness")
    check(tmp_path / "saw")
    draw_bars(tmp_path / "steady", ["index", "psp"], [0.31, 0.35], "Steady", "staleness", bound=("bound", 0.309))
    check(tmp_path / "steady")


def test_a_missing_directory_is_said_before_anything_is_computed(tmp_path):
    with pytest.raises(ConfigError, match="no directory"):
        check_can_plot(tmp_path / "nowhere" / "figure")


def test_missing_matplotlib_is_said_with_what_to_install(tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'tarrafa\[plot\]'"):
        check_can_plot(tmp_path / "figure")


@given(st.lists(st.floats(0, 1), max_size=8), st.floats(0.01, 0.2))
def test_labels_keep_their_order_and_do_not_overlap(places, least):
    found = spread_labels(places, least)
    order = sorted(range(len(places)), key=lambda index: places[index])
    placed = [found[index] for index in order]
    assert all(above - below >= least - 1e-9 for below, above in itertools.pairwise(placed))


def test_labels_that_are_far_apart_stay_where_they_are():
    assert spread_labels([0.9, 0.1, 0.5], 0.1) == [0.9, 0.1, 0.5]
    assert spread_labels([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])
    assert spread_labels([0.01, 0.02, 0.12], 0.1, lowest=0.0) == pytest.approx([0.0, 0.1, 0.2])
