"""Worker: the process that fetches, parses and archives the pages of its leased hosts."""
