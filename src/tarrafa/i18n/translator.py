"""Translates the interface: gettext for sentences, Babel for numbers, sizes and names of languages.

English is written where it is used, in the code and in the templates; `pt_BR.po` holds the Portuguese, and `pt_BR.mo`
is compiled from it when the package is built (`make`, `pip install`). A `Message` is an English sentence as a key, with
its values beside it; a page, command or report renders it with the `Translator` of its reader.
Promises: a value is never read as part of a sentence; a sentence without a translation is rendered in English.
Knows nothing of HTTP and templates.
"""

from __future__ import annotations

import gettext
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

LOCALES = {"en": "en", "pt": "pt_BR"}  # code of the interface -> locale of Babel and of the catalogue
LANGUAGES = tuple(LOCALES)
MINUS = "−"
BYTE_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
WAIT_UNITS: tuple[tuple[int, Literal["day", "hour", "minute", "second"]], ...] = (
    (86_400, "day"),
    (3_600, "hour"),
    (60, "minute"),
    (1, "second"),
)
FEW = 2  # of a unit: below, the next smaller one is used, because "in 1 day" could be nearly two
Structure = TypeVar("Structure")
LANGUAGE_NAMES_KEPT_MAX = 1024
ENCODED_START = '{"text":'  # of a message as text
# Sentences may come from another machine: a place is a name and a short format, never an attribute of a value.
_place = re.compile(r"\{(\w+)(?:(!r)|:([,.\d]{0,4}[a-z%]{0,8}))?\}|\{\{|\}\}")


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """`text` has places by name: `{limit}`. With `plural`, the value `count` decides which of the two is meant."""

    text: str
    values: dict[str, str | int | float | Message] = {}
    plural: str = ""

    def __str__(self) -> str:
        """The message in English, for logs and for programs."""
        return ENGLISH.render(self)


Value = str | int | float | Message
Given = Value | Path | BaseException  # a path and an error are values as text


def message(text: str, /, **values: Given) -> Message:
    return Message(text, {name: _plain(value) for name, value in values.items()})


def messages(one: str, many: str, /, count: int, **values: Given) -> Message:
    """A message whose form depends on a count: `messages("{count} page", "{count} pages", 7)`."""
    return Message(one, {"count": count, **{name: _plain(value) for name, value in values.items()}}, many)


def _plain(value: Given) -> Value:
    """A value that can be encoded: of a type of its own, such as `config.Seconds`, the number or text itself."""
    if isinstance(value, Message):
        return value
    return next((kind(value) for kind in (int, float) if isinstance(value, kind)), str(value))


def joined(parts: Sequence[Message | str], separator: str = "; ") -> Message | str:
    """Several messages as one, in their order."""
    if len(parts) < 2:
        return parts[0] if parts else ""
    names = [f"part{number}" for number in range(len(parts))]
    return Message(separator.join(f"{{{name}}}" for name in names), dict(zip(names, parts, strict=True)))


def to_text(reason: Message | str, chars_max: int | None = None) -> str:
    """A message as one text, for a column of a database; `from_text` reads it. One that is too long is cut, in
    English."""
    text = reason if isinstance(reason, str) else msgspec.json.encode(reason).decode()
    return text if chars_max is None or len(text) <= chars_max else str(reason)[:chars_max]


def from_text(text: str) -> Message | str:
    """The message of `to_text`; any other text stays as it is."""
    if not text.startswith(ENCODED_START):
        return text
    try:
        return msgspec.json.decode(text, type=Message)
    except msgspec.MsgspecError:
        return text


def zoned_moment(shown: datetime, zone: str) -> str:
    """A moment as the value of a place such as `{at:moment}`: what the clock of that time zone shows, and the zone."""
    return f"{shown.replace(tzinfo=None).isoformat()} {zone}"


class Translator:
    """One language of the interface: called with a sentence and its values, it returns the sentence translated."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._signs: dict[int, int] | None = None

    @cached_property
    def _catalogue(self) -> gettext.NullTranslations:
        if self.code == "en":
            return gettext.NullTranslations()
        with resources.files("tarrafa.i18n").joinpath(f"{LOCALES[self.code]}.mo").open("rb") as file:
            return gettext.GNUTranslations(file)

    def __call__(self, text: str, /, **values: object) -> str:
        translated = self._catalogue.gettext(text)
        return self._fill(translated, values) if values else translated

    def ngettext(self, one: str, many: str, count: int, /, **values: object) -> str:
        """The singular or plural form for `count`, which is also the value `{count}`."""
        return self._fill(self._catalogue.ngettext(one, many, count), {"count": count, **values})

    def render(self, message: Message | str) -> str:
        """A message in words. A plain text comes from a server or a library and stays as it is."""
        if isinstance(message, str):
            return message
        if message.plural:
            count = message.values["count"]
            assert isinstance(count, int)
            return self.ngettext(message.text, message.plural, count, **message.values)
        return self(message.text, **message.values)

    def render_all(self, value: Structure) -> Structure:
        """A structure with every message in it rendered: for programs that read JSON."""
        return self._rendered(value)  # type: ignore[no-any-return]

    def _rendered(self, value: Any) -> Any:
        if isinstance(value, Message):
            return self.render(value)
        if isinstance(value, msgspec.Struct):
            fields = {name: getattr(value, name) for name in value.__struct_fields__}
            changed = {name: new for name, old in fields.items() if (new := self._rendered(old)) is not old}
            return msgspec.structs.replace(value, **changed) if changed else value
        if isinstance(value, list | tuple):
            entries = [self._rendered(one) for one in value]
            is_same = all(new is old for new, old in zip(entries, value, strict=True))
            return value if is_same else type(value)(entries)
        if isinstance(value, dict):
            entries_by_key = {key: self._rendered(one) for key, one in value.items()}
            return entries_by_key if any(entries_by_key[key] is not value[key] for key in value) else value
        return value

    def _fill(self, text: str, values: dict[str, object]) -> str:
        """The values in their places; a place without a value stays as it is."""

        def filled(place: re.Match[str]) -> str:
            name, quoted, form = place.groups()
            if name is None:
                return place[0][0]  # a doubled brace
            return self._format(values[name], quoted or form or "") if name in values else place[0]

        return _place.sub(filled, text)

    def _format(self, value: object, form: str) -> str:
        """`{name!r}` is quoted, `{at:moment}` is a `zoned_moment`, `{wait:ahead}` a number of seconds from now."""
        if type(value) is str:
            return repr(value) if form == "!r" else self.zoned(value) if form == "moment" else value
        if form == "ahead" and isinstance(value, int | float):
            return self.ahead(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self.localize(format(value, form or ","))
        return self.render(value) if isinstance(value, Message) else str(value)

    def localize(self, text: str) -> str:
        """`1,234.5` with the separators of the language."""
        if self._signs is None:
            symbols = _locale(self.code).number_symbols["latn"]
            self._signs = str.maketrans({",": symbols["group"], ".": symbols["decimal"], "-": MINUS})
        return text.translate(self._signs)

    def number(self, value: float, places: int = 0) -> str:
        """`1,234`; a value that rounds to nothing has no sign."""
        text = f"{value:,.{places}f}"
        return self.localize(text if float(text.replace(",", "")) else text.lstrip("-"))

    def precise(self, value: float) -> str:
        """Three digits that matter."""
        if abs(value) >= 100 or value == int(value):
            return self.number(value)
        return self.number(value, 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 4)

    def significant(self, value: float) -> str:
        """Three digits that matter, and no zero behind them: 0.00123, 1.2, 1,230."""
        digits = max(0, 2 - math.floor(math.log10(abs(value)))) if value else 0
        text = f"{value:,.{min(digits, 9)}f}"
        return self.localize(text.rstrip("0").rstrip(".") if "." in text else text)

    def percent(self, share: float, places: int = 1) -> str:
        return f"{self.number(share * 100, places)} %"

    def size(self, size: float) -> str:
        """`1.23 MB`, by powers of a thousand."""
        unit, value = 0, float(size)
        while abs(value) >= 1000 and unit < len(BYTE_UNITS) - 1:
            unit, value = unit + 1, value / 1000
        return f"{self.number(value) if unit == 0 else self.precise(value)} {BYTE_UNITS[unit]}"

    def span(self, seconds: float) -> str:
        """How long something takes: `0.02 ms`, `12 ms`, `3.5 s`, `2 min 05 s`, `3 h 20 min`, `4 d 3 h`."""
        if seconds < 1:
            digits = 2 if 0 < seconds < 0.001 else 1 if seconds < 0.1 else 0
            return f"{self.number(seconds * 1000, digits)} ms"
        if seconds < 120:
            return f"{self.number(seconds, 1 if seconds < 10 else 0)} s"
        minutes, hours = int(seconds // 60), int(seconds // 3600)
        if hours < 2:
            return f"{minutes} min {int(seconds % 60):02d} s"
        if hours < 48:
            return f"{hours} h {minutes % 60:02d} min"
        _ = self
        return _("{days} d {hours} h", days=hours // 24, hours=hours % 24)

    def moment(self, at: float) -> str:
        """A moment in UTC, `2026-12-01 03:00:00 UTC`."""
        try:
            return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        except (OverflowError, ValueError, OSError):
            return str(at)

    def zoned(self, moment: str) -> str:
        """`Monday 2026-12-07 at 03:00 America/Sao_Paulo`, of a `zoned_moment`; with seconds where there are some."""
        from babel.dates import format_datetime

        shown, _space, zone = moment.partition(" ")
        try:
            at, _ = datetime.fromisoformat(shown), self
        except ValueError:
            return moment
        weekday = format_datetime(at, "EEEE", locale=_locale(self.code))
        time = at.strftime("%H:%M:%S" if at.second else "%H:%M")
        return _("{weekday} {date} at {time} {zone}", weekday=weekday, date=at.date().isoformat(), time=time, zone=zone)

    def ahead(self, wait_s: float) -> str:
        """`in 15 days`, in the largest unit of which there are some."""
        from babel.dates import format_timedelta

        for unit_s, unit in WAIT_UNITS:
            count = int(wait_s // unit_s)
            if count >= FEW or (count and unit_s == 1):
                wait = timedelta(seconds=count * unit_s)
                locale = _locale(self.code)  # a threshold that no unit reaches: Babel would say 2 weeks for 15 days
                return format_timedelta(wait, unit, math.inf, add_direction=True, locale=locale)
        _ = self
        return _("now")

    def language_name(self, code: str) -> str:
        """`Portuguese` for `pt-BR`; empty where the code is unknown."""
        return _language_name(self.code, code.partition("-")[0].lower())


@cache
def _locale(code: str) -> Any:
    from babel import Locale

    return Locale.parse(LOCALES[code])


@lru_cache(LANGUAGE_NAMES_KEPT_MAX)
def _language_name(interface: str, code: str) -> str:
    name = str(_locale(interface).languages.get(code, ""))
    return name[:1].upper() + name[1:]


ENGLISH, PORTUGUESE = Translator("en"), Translator("pt")


def translator(code: str) -> Translator:
    """The translator of a language; English where there is no such language."""
    return PORTUGUESE if code == PORTUGUESE.code else ENGLISH
