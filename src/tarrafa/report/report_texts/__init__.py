"""The texts of a report in one language, and how it writes numbers, sizes and times.

One `Texts` for each language (`english`, `portuguese`): sentences by name, with places for values, and how numbers,
sizes, spans of time and moments are written. Values that come from the Web are put into them as they are; whoever
writes HTML or Markdown makes them harmless.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

UNITS_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
MINUS = "−"


@dataclass(frozen=True, slots=True)
class Texts:
    """The words of one language."""

    code: str
    thousands: str
    decimal: str
    words: Mapping[str, str]
    languages: Mapping[str, str]
    statuses: Mapping[int, str]

    def __call__(self, name: str, /, **values: str) -> str:
        return self.words[name].format(**values)

    def number(self, value: float, places: int = 0) -> str:
        text = f"{abs(value):,.{places}f}"
        signed = f"{MINUS}{text}" if value < 0 and float(text.replace(",", "")) else text
        return signed.translate(str.maketrans(",.", self.thousands + self.decimal))

    def precise(self, value: float) -> str:
        """Three digits that matter."""
        if abs(value) >= 100 or value == int(value):
            return self.number(value)
        places = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4
        return self.number(value, places)

    def percent(self, share: float, places: int = 1) -> str:
        return f"{self.number(share * 100, places)} %"

    def size(self, size: float) -> str:
        unit, value = 0, float(size)
        while abs(value) >= 1000 and unit < len(UNITS_BYTES) - 1:
            unit, value = unit + 1, value / 1000
        return f"{self.number(value) if unit == 0 else self.precise(value)} {UNITS_BYTES[unit]}"

    def span(self, seconds: float) -> str:
        if seconds < 1:
            return f"{self.number(seconds * 1000, 1 if seconds < 0.1 else 0)} ms"
        if seconds < 120:
            return f"{self.number(seconds, 1 if seconds < 10 else 0)} s"
        minutes, hours = int(seconds // 60), int(seconds // 3600)
        if hours < 2:
            return f"{minutes} min {int(seconds % 60):02d} s"
        if hours < 48:
            return f"{hours} h {minutes % 60:02d} min"
        return self("days", days=self.number(hours // 24), hours=str(hours % 24))

    def moment(self, at: float) -> str:
        try:
            return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        except (OverflowError, ValueError, OSError):
            return str(at)

    def status(self, status: int) -> str:
        """What a status means."""
        if status in self.statuses:
            return self.statuses[status]
        try:
            return HTTPStatus(status).phrase
        except ValueError:
            return ""

    def language(self, code: str) -> str:
        known = self.languages.get(code.partition("-")[0].lower())
        return f"{known} ({code})" if known else code or self("none")
