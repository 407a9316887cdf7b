"""Explanations for people: one URL, one page, one site."""
