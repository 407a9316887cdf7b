"""The language of a page: what was chosen, then what the browser asks for, then English."""

import pytest

from tarrafa.server.language_negotiation import choose_language


@pytest.mark.parametrize(
    ("chosen", "remembered", "accepted", "code"),
    [
        ("", "", "", "en"),
        ("", "", "pt-BR,pt;q=0.9,en;q=0.8", "pt"),
        ("", "", "en;q=0.5, pt;q=0.9", "pt"),
        ("", "", "PT", "pt"),
        ("", "", "de, fr;q=0.9", "en"),
        ("", "", "pt;q=0, en", "en"),
        ("", "", "pt;q=x, de", "en"),
        ("", "", "*;q=0.1" * 5000, "en"),
        ("", "pt", "en", "pt"),
        ("en", "pt", "pt", "en"),
        ("xx", "yy", "pt", "pt"),
    ],
)
def test_what_was_chosen_counts_before_what_the_browser_says(chosen, remembered, accepted, code):
    assert choose_language(chosen, remembered, accepted).code == code
