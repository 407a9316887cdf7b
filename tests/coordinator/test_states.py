"""What may be done with a collection depends on its state, and is said."""

import re
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tarrafa.coordinator.states import (
    ACTIONS,
    ScheduleStatus,
    allowed_actions,
    check_action,
    reason_by_person,
)
from tarrafa.errors import ConfigError
from tarrafa.frontier.collection_status import finish_reason
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.i18n import PORTUGUESE


@pytest.mark.parametrize(
    ("state", "actions"),
    [
        ("ready", ["start", "delete"]),
        ("waiting", ["start", "stop", "delete"]),
        ("running", ["pause", "retry", "stop"]),
        ("paused", ["resume", "stop", "delete"]),
        ("stopped", ["resume", "again", "delete"]),
        ("finished", ["again", "delete"]),
        ("importing", []),
        ("deleting", ["delete"]),
    ],
)
def test_what_is_possible_in_a_state(state, actions):
    assert allowed_actions(state) == actions


@pytest.mark.parametrize(
    ("state", "rest", "actions"),
    [
        ("waiting", ScheduleStatus.PLANNED, ["start", "pause", "stop", "delete"]),
        ("stopped", ScheduleStatus.PLANNED, ["pause", "resume", "again", "delete"]),
        ("finished", ScheduleStatus.PLANNED, ["pause", "again", "delete"]),
        ("paused", ScheduleStatus.PLANNED, ["resume", "stop", "delete"]),
        ("paused", ScheduleStatus.HELD, ["resume", "delete"]),
    ],
)
def test_what_is_possible_where_there_is_a_schedule(state, rest, actions):
    assert allowed_actions(state, rest) == actions


def test_what_runs_is_never_deleted_or_started_twice():
    for action in ("start", "delete", "again", "resume"):
        possible = re.escape("pause (`tarrafa pause news`), retry, stop (`tarrafa stop news`)")
        said = rf"^news is running: {action} needs the state .*; possible now: {possible}$"
        with pytest.raises(ConfigError, match=said):
            check_action("news", action, "running")


def is_refused(action: str, state: str) -> bool:
    try:
        check_action("news", action, state)
    except ConfigError:
        return True
    return False


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_offered_somewhere_and_refused_wherever_it_is_not_offered(action):
    states = {"importing", *(state for some in ACTIONS.values() for state in some)}
    offered = {state for state in states if action in allowed_actions(state)}
    assert offered
    assert {state for state in states if is_refused(action, state)} == states - offered


def test_a_reason_names_who_and_when_by_the_clock_on_the_wall():
    told = reason_by_person("ana", 1_795_000_000.0, ZoneInfo("America/Sao_Paulo"))
    assert str(told) == "by ana at 08:06 on 2026-11-18"
    assert PORTUGUESE.render(told) == "por ana às 08:06 de 2026-11-18"


@pytest.mark.parametrize(
    ("numbers", "portuguese"),
    [
        ({}, "tudo o que está ao alcance foi visitado"),
        ({"sites_chosen": 3, "passed_over": 1_200},
         "todos os sites ao alcance foram visitados; 1.200 das suas URLs foram deixadas de lado"),
        (
            {"statuses": {"-14": 2, "404": 1}},
            "nenhuma raiz pôde ser buscada: -14 endereço recusado, 404 Não encontrado",
        ),
        ({"pending": 5, "pages_max": 7, "fetched": 7}, "pages_max = 7 foi alcançado"),
        ({"pending": 5, "requests_max": 9, "requests": 9}, "requests_max = 9 foi alcançado"),
    ],
)  # fmt: skip
def test_why_a_crawl_is_over_is_said_in_both_languages(numbers, portuguese):
    status = replace(CollectionStatus("c", "running", "", 0, 0, 0, 0, 1, 0.0), **numbers)
    assert PORTUGUESE.render(finish_reason(status)) == portuguese
