"""Decodes and describes text: charset, language, fingerprints, dates, word counts."""
