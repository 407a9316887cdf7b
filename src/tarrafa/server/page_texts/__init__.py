"""Texts of the console, in English and Portuguese."""
