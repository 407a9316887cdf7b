"""Sentences for the decisions of the scheduler, in English and Portuguese.

A `Reason` is a key with its values; here are its sentences, in English and in Portuguese, with the date as the zone
of the schedule has it. They stand behind a state: "waiting: starts on Tuesday 2026-12-01 at 03:00 …".
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tarrafa.coordinator.schedule.recurrence import local_time

Language = Literal["en", "pt"]


class Reason(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` is the moment that it is about, `zone` the one of the schedule, `wait_s` how far ahead `at` is."""

    key: str
    at: float | None = None
    zone: str = "UTC"
    wait_s: float = 0.0


SENTENCES: Mapping[Language, Mapping[str, str]] = {
    "en": {
        "by_hand": "starts when somebody starts it",
        "starts": "starts on {at} ({wait})",
        "next": "next run on {at} ({wait})",
        "no_more": "no other run is planned",
        "cut": "was stopped by its deadline, and goes on when somebody starts it",
        "over": "its deadline, {at}, has passed: nothing more is started",
        "until": "goes on until its end, or until {at} ({wait})",
        "to_its_end": "goes on until its end",
        "beyond": "goes on after its deadline, {at}, because somebody started it by hand",
        "rests": "its schedule rests until somebody resumes it",
        "start_has_come": "its start, {at}, has come",
        "run_is_due": "its run of {at} is due",
        "caught_up": "its run of {at} was missed, and is made up for now",
        "deadline_has_come": "its deadline, {at}, has come",
        "left_out_running": "its run of {at} is left out: the one before was still going",
        "left_out_paused": "its run of {at} is left out: it was paused by hand",
    },
    "pt": {
        "by_hand": "começa quando alguém a iniciar",
        "starts": "começa {at} ({wait})",
        "next": "próxima execução: {at} ({wait})",
        "no_more": "nenhuma outra execução está prevista",
        "cut": "foi parada pelo prazo, e continua quando alguém a iniciar",
        "over": "seu prazo, {at}, já passou: nada mais é iniciado",
        "until": "continua até terminar, ou até {at} ({wait})",
        "to_its_end": "continua até terminar",
        "beyond": "continua depois do prazo, {at}, porque alguém a iniciou à mão",
        "rests": "sua agenda espera até que alguém a retome",
        "start_has_come": "chegou a hora de começar: {at}",
        "run_is_due": "chegou a hora da execução de {at}",
        "caught_up": "a execução de {at} foi perdida e é feita agora",
        "deadline_has_come": "chegou o prazo: {at}",
        "left_out_running": "a execução de {at} fica de fora: a anterior ainda não tinha terminado",
        "left_out_paused": "a execução de {at} fica de fora: estava pausada à mão",
    },
}
WEEKDAYS: Mapping[Language, tuple[str, ...]] = {
    "en": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "pt": ("segunda", "terça", "quarta", "quinta", "sexta", "sábado", "domingo"),
}
SPANS: Mapping[Language, tuple[tuple[int, str, str], ...]] = {
    "en": ((86_400, "day", "days"), (3_600, "hour", "hours"), (60, "minute", "minutes"), (1, "second", "seconds")),
    "pt": ((86_400, "dia", "dias"), (3_600, "hora", "horas"), (60, "minuto", "minutos"), (1, "segundo", "segundos")),
}
AHEAD: Mapping[Language, tuple[str, str]] = {"en": ("in {span}", "now"), "pt": ("em {span}", "agora")}
FEW = 2  # of a unit: below, the next smaller one is used, because "in 1 day" could be nearly two


def sentence(reason: Reason, language: Language = "en") -> str:
    """It, for a person."""
    at = "" if reason.at is None else moment_in_words(reason.at, reason.zone, language)
    return SENTENCES[language][reason.key].format(at=at, wait=wait_in_words(reason.wait_s, language))


def moment_in_words(moment: float, zone: str, language: Language = "en") -> str:
    """`Monday 2026-12-07 at 03:00 America/Sao_Paulo`; with seconds where there are some."""
    shown = local_time(moment, zone)
    time = shown.strftime("%H:%M:%S" if shown.second else "%H:%M")
    between = {"en": "at", "pt": "às"}[language]
    return f"{WEEKDAYS[language][shown.weekday()]} {shown.date().isoformat()} {between} {time} {zone}"


def wait_in_words(wait_s: float, language: Language = "en") -> str:
    """`in 15 days`, in the largest unit of which there are some."""
    ahead, now = AHEAD[language]
    for unit_s, one, many in SPANS[language]:
        count = int(wait_s // unit_s)
        if count >= FEW or (count and unit_s == 1):
            return ahead.format(span=f"{count} {one if count == 1 else many}")
    return now
