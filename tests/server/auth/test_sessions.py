"""Sessions: they live as long as they may, outlive a restart, and cannot be made from what is kept of them."""

import pytest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.auth.sessions import ABSOLUTE_S, IDLE_S, PER_ACCOUNT_MAX, LoginSessions, csrf_token
from tests.server.console.example_console import SteppedClock


def a_restart(data: DataDirectory, now: SteppedClock) -> LoginSessions:
    sessions = LoginSessions(data, now)
    sessions.load()
    return sessions


async def test_a_session_is_found_also_after_a_restart_and_its_secret_is_nowhere(data):
    now = SteppedClock()
    sessions = a_restart(data, now)
    secret = await sessions.begin("ana", "mark")
    for found in (await sessions.find(secret), await a_restart(data, now).find(secret)):
        assert found is not None
        assert (found.account, found.mark) == ("ana", "mark")
    assert secret.encode() not in data.coordinator.read_bytes()
    assert csrf_token(secret).encode() not in data.coordinator.read_bytes()


@pytest.mark.parametrize("secret", ["", "x", "é" * 43, "A" * 43, "A" * 10_000])
async def test_what_nobody_was_given_is_nobody(data, secret):
    assert await a_restart(data, SteppedClock()).find(secret) is None


async def test_a_session_ends_when_it_is_idle_and_when_it_is_old(data):
    now = SteppedClock()
    sessions = a_restart(data, now)
    idle, used = await sessions.begin("ana", ""), await sessions.begin("ana", "")
    begun = now.at
    while now.at < begun + ABSOLUTE_S - IDLE_S / 2:
        now.at += IDLE_S * 0.9
        assert await sessions.find(used) is not None
    assert await sessions.find(idle) is None
    assert await a_restart(data, now).find(used) is not None, "the last use was written down"
    now.at = begun + ABSOLUTE_S + 1
    assert await a_restart(data, now).find(used) is None
    assert await sessions.find(used) is None


async def test_who_signed_out_stays_so_after_a_restart(data):
    now = SteppedClock()
    sessions = a_restart(data, now)
    secret = await sessions.begin("ana", "")
    found = await sessions.find(secret)
    assert found is not None
    await sessions.end(found)
    assert await sessions.find(secret) is None
    assert await a_restart(data, now).find(secret) is None


async def test_an_account_has_only_so_many_sessions_those_used_last(data):
    now = SteppedClock()
    sessions = a_restart(data, now)
    secrets = []
    for _ in range(PER_ACCOUNT_MAX + 3):
        now.at += 1
        secrets.append(await sessions.begin("ana", ""))
    kept = [await sessions.find(secret) is not None for secret in secrets]
    assert kept == [False] * 3 + [True] * PER_ACCOUNT_MAX


def test_what_forms_bring_along_differs_from_session_to_session():
    assert csrf_token("a") != csrf_token("b")
    assert "a" * 43 not in csrf_token("a" * 43)
