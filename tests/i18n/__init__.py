"""Tests of the translations."""
