"""Compaction of the archive: retention rules, erasure, fewer and fuller files, today's parser on stored bytes."""
