"""Scope of a collection: admission of URLs, scope rules, crawler traps."""
