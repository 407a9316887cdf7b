"""Writes and reads the answer file: whole HTTP answers by host and path, built before a benchmark runs.

Promises: both page servers (`page_server.c`, `page_server.py`) answer the same bytes from the same file.
Knows nothing of what the pages contain.

The file: a header of five numbers, the answers, a hash table (key, place, length; open addressing), and a list of
templates (place, length). The first template answers /robots.txt, the second is the 404, the others answer the URLs
that are not in the table. All numbers are 64 bits, little-endian.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MAGIC = int.from_bytes(b"ANSWERS1", "little")
HEADER, SLOT, TEMPLATE = struct.Struct("<5Q"), struct.Struct("<3Q"), struct.Struct("<2Q")
FIXED_ANSWERS = 2
ROBOTS = b"User-agent: *\nDisallow:\n"
FILL = b"@"  # in a template: replaced by a letter that depends on the URL
_FNV_START, _FNV_PRIME, _WORD = 14695981039346656037, 1099511628211, (1 << 64) - 1


class Answer(NamedTuple):
    """The page of one URL."""

    host: str
    path: str
    body: bytes


def answer_key(text: str) -> int:
    """FNV-1a of host and path, as in page_server.c."""
    key = _FNV_START
    for byte in text.encode():
        key = ((key ^ byte) * _FNV_PRIME) & _WORD
    return key


def http_answer(body: bytes, content_type: str = "text/html; charset=utf-8", status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def write_answers(path: Path, answers: Iterable[Answer], templates: Iterable[bytes] = ()) -> int:
    """Write the file; the number of answers."""
    places: list[tuple[int, int, int]] = []
    with path.open("wb") as file:
        file.write(bytes(HEADER.size))
        for answer in answers:
            data = http_answer(answer.body)
            places.append((answer_key(answer.host + answer.path), file.tell(), len(data)))
            file.write(data)
        fixed = [http_answer(ROBOTS, "text/plain"), http_answer(b"not here\n", "text/plain", "404 Not Found")]
        listed = []
        for data in [*fixed, *map(http_answer, templates)]:
            listed.append((file.tell(), len(data)))
            file.write(data)
        file.write(bytes(-file.tell() % 8))
        table, slots_at = _hash_table(places), file.tell()
        file.write(b"".join(SLOT.pack(*slot) for slot in table))
        templates_at = file.tell()
        file.write(b"".join(TEMPLATE.pack(*one) for one in listed))
        file.seek(0)
        file.write(HEADER.pack(MAGIC, len(table), slots_at, len(listed), templates_at))
    return len(places)


def _hash_table(places: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    table = [(0, 0, 0)] * (1 << (2 * len(places) + 1).bit_length())
    for place in places:
        at = place[0] % len(table)
        while table[at][2]:
            if table[at][0] == place[0]:
                raise ValueError(f"two answers of one URL: key {place[0]}")
            at = (at + 1) % len(table)
        table[at] = place
    return table


class AnswerFile:
    """The answers of a file, for the page server in Python."""

    def __init__(self, path: Path) -> None:
        self._data = data = path.read_bytes()
        _, slots, slots_at, templates, templates_at = HEADER.unpack_from(data)
        found = SLOT.iter_unpack(data[slots_at : slots_at + slots * SLOT.size])
        self._places = {key: (at, length) for key, at, length in found if length}
        listed = list(TEMPLATE.iter_unpack(data[templates_at : templates_at + templates * TEMPLATE.size]))
        fixed = [data[at : at + length] for at, length in listed]
        self.robots, self.missing = fixed[:FIXED_ANSWERS]
        self._templates = fixed[FIXED_ANSWERS:]

    def page(self, url: str) -> bytes | None:
        """The answer to host and path."""
        key = answer_key(url)
        if (place := self._places.get(key)) is not None:
            return self._data[place[0] : place[0] + place[1]]
        if not self._templates:
            return None
        return _fill(self._templates[key % len(self._templates)], key)


def _fill(template: bytes, key: int) -> bytes:
    filled = bytearray(template)
    at = filled.find(FILL)
    while at >= 0:
        key = (key * 6364136223846793005 + 1442695040888963407) & _WORD
        filled[at] = ord("a") + (key >> 33) % 26
        at = filled.find(FILL, at)
    return bytes(filled)
