"""Keeps the catalogue `pt_BR.po` complete: collects the sentences of code and templates (`make translations`).

Sentences are what stands in `_`, `ngettext`, `message` and `messages`. What is new stands in the catalogue without a
translation, and a test fails until it has one; what is no longer used is dropped.
"""

import re
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

PACKAGE = Path(__file__).parents[1]
PATH = Path(__file__).with_name("pt_BR.po")
METHODS = [("**/templates/**.html", "jinja2"), ("**.py", "python")]
KEYWORDS = {"_": None, "message": None, "ngettext": (1, 2), "messages": (1, 2)}
PLACES = re.compile(r"\{(\w+)")
HEADER = """\
msgid ""
msgstr ""
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Language: pt_BR\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

"""


def sentences() -> dict[str | tuple[str, str], str]:
    """Every sentence of the interface with the first file that holds it, in the order of files."""
    found: dict[str | tuple[str, str], str] = {}
    options = {METHODS[0][0]: {"silent": "false", "trimmed": "true"}}
    for path, _line, text, _comments, _context in extract_from_dir(PACKAGE, METHODS, options, KEYWORDS):
        key = text if isinstance(text, str) else (text[0], text[1])
        if key:
            found.setdefault(key, path)
    return found


def read() -> Catalog:
    with PATH.open("rb") as file:
        return read_po(file, locale="pt_BR")


def complaints(catalogue: Catalog) -> list[str]:
    """What is missing, superfluous or wrong in the catalogue."""
    wanted, entries = sentences(), {entry.id: entry for entry in catalogue if entry.id}
    found = [f"no translation of {key!r} ({path})" for key, path in wanted.items() if not _is_whole(entries.get(key))]
    found += [f"{key!r} is no longer used" for key in entries if key not in wanted]
    for key, entry in entries.items():
        places = set(PLACES.findall(key if isinstance(key, str) else key[-1]))
        found += [f"other places in {text!r}" for text in _forms(entry) if set(PLACES.findall(text)) - places]
    return found


def _is_whole(entry: Entry | None) -> bool:
    return entry is not None and all(_forms(entry))


def _forms(entry: Entry) -> list[str]:
    """Its translation, or the singular and the plural of it."""
    return [entry.string] if isinstance(entry.string, str) else list(entry.string or [""])


def update() -> int:
    """Write the catalogue anew with every sentence of today; returns how many have no translation."""
    old, new = read(), Catalog(locale="pt_BR")
    for key, path in sentences().items():
        known = old.get(key if isinstance(key, str) else key[0])
        new.add(key, known.string if known is not None else "", locations=[(path, 1)])
    with PATH.open("wb") as file:
        file.write(HEADER.encode())
        write_po(file, new, width=120, omit_header=True, include_lineno=False, sort_by_file=True)
    return sum(not _is_whole(entry) for entry in new if entry.id)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{update()} sentences without a translation in {PATH.name}\n")
