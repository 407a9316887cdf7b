"""Output of the commands: tables, text and JSON on the terminal."""
