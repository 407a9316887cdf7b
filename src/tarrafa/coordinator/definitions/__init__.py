"""Definitions of collections: versions, drafts, forms, presets, TOML."""
