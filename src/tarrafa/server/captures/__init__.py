"""Routes of the archive that people see: CDX server, Memento, raw captures and their text."""
