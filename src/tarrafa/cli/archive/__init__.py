"""Commands that show what the archive holds."""
