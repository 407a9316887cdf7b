"""Accounts and passwords: what is kept of them, and who can read it."""

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from tarrafa.errors import Busy, ConfigError, DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.auth import passwords
from tarrafa.server.auth.accounts import FILE, Accounts
from tarrafa.server.auth.passwords import (
    DUMMY_HASH,
    VERIFICATIONS_MAX,
    WAITING_MAX,
    PasswordVerifier,
    hash_password,
    verify_password,
)

PASSWORD = "correct horse battery"


def path_of(data: DataDirectory) -> Path:
    return data.root / FILE


def test_a_password_is_kept_as_argon2id_of_64_mib_and_is_found_right(dear):
    made = hash_password(PASSWORD)
    assert made.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert verify_password(PASSWORD, made)
    assert not verify_password("correct horse batterz", made)
    assert not verify_password(PASSWORD, "no hash at all")


def test_a_name_that_does_not_exist_is_compared_with_the_same_work(dear):
    assert DUMMY_HASH.split("$")[1:4] == hash_password(PASSWORD).split("$")[1:4]
    assert not verify_password(PASSWORD, None)


def test_a_password_is_the_same_however_a_keyboard_puts_its_letters_together():
    assert verify_password(
        "senha da Joa\N{COMBINING TILDE}o", hash_password("senha da Jo\N{LATIN SMALL LETTER A WITH TILDE}o")
    )


@pytest.mark.parametrize("password", ["", "short", "x" * 1_001])
def test_a_password_that_is_too_short_or_too_long_is_refused_without_being_told(data, password):
    with pytest.raises(ConfigError, match=r"10 to 1,000 characters") as raised:
        Accounts(data).add("ana", "admin", password, 1.0)
    assert not password or password not in str(raised.value)


def test_accounts_are_readable_by_their_owner_only_and_hold_no_password(data):
    accounts = Accounts(data)
    assert not accounts
    accounts.add("ana", "admin", PASSWORD, 1.0)
    assert stat.S_IMODE(path_of(data).stat().st_mode) == 0o600
    assert PASSWORD not in path_of(data).read_text()
    assert "argon2" not in repr(accounts.find("ana"))
    assert [(one.name, one.role) for one in accounts.all_accounts()] == [("ana", "admin")]


def test_the_old_accounts_are_there_until_the_new_ones_are_wholly_written(data, monkeypatch):
    accounts = Accounts(data)
    accounts.add("ana", "admin", PASSWORD, 1.0)
    before = path_of(data).read_bytes()

    def full(number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError):
            accounts.add("bia", "admin", PASSWORD, 2.0)
    assert path_of(data).read_bytes() == before


def test_accounts_that_others_can_read_are_refused(data):
    accounts = Accounts(data)
    accounts.add("ana", "admin", PASSWORD, 1.0)
    path_of(data).chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        Accounts(data).find("ana")


@pytest.mark.parametrize("content", ["", "{", '{"accounts": [1]}', "\xff", '{"accounts": {}}', "[" * 100_000])
def test_a_damaged_file_is_one_sentence_and_lets_nobody_in(data, content):
    path_of(data).write_bytes(content.encode("latin-1"))
    path_of(data).chmod(0o600)
    with pytest.raises(DataError, match=f"{FILE}: is damaged"):
        bool(Accounts(data))


@pytest.mark.parametrize("name", ["", "local", "token", "nobody", "a b", "../x", "-x", "x" * 65, "ana\n", "é"])
def test_a_name_that_cannot_be_one_is_refused(data, name):
    with pytest.raises(ConfigError, match="a name has letters"):
        Accounts(data).add(name, "admin", PASSWORD, 1.0)


def test_a_name_is_given_once_and_a_stranger_cannot_be_changed(data):
    accounts = Accounts(data)
    accounts.add("ana", "admin", PASSWORD, 1.0)
    with pytest.raises(ConfigError, match="exists already"):
        accounts.add("ana", "viewer", PASSWORD, 1.0)
    with pytest.raises(ConfigError, match="bob: does not exist"):
        accounts.remove("bob")
    with pytest.raises(ConfigError, match="bob: does not exist"):
        accounts.set_password("bob", PASSWORD, 1.0)


def test_another_process_changes_them_and_it_is_seen_at_once(data):
    served, elsewhere = Accounts(data), Accounts(data)
    elsewhere.add("ana", "admin", PASSWORD, 1.0)
    before = served.find("ana")
    assert before is not None
    elsewhere.set_password("ana", f"{PASSWORD}!", 2.0)
    after = served.find("ana")
    assert after is not None
    assert after.mark != before.mark
    assert (after.created, after.changed) == (1.0, 2.0)
    elsewhere.remove("ana")
    assert served.find("ana") is None


def test_many_who_add_accounts_at_once_all_succeed(data):
    def add(number: int) -> None:
        Accounts(data).add(f"user{number}", "viewer", PASSWORD, 1.0)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(Accounts(data).all_accounts()) == 8


async def test_few_passwords_are_worked_on_at_once_and_a_flood_is_told_to_come_back(monkeypatch):
    at_once, most, lock, go = 0, 0, threading.Lock(), threading.Event()

    def slow(password: str, kept: str | None) -> bool:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        go.wait(10)
        with lock:
            at_once -= 1
        return True

    monkeypatch.setattr(passwords, "verify_password", slow)

    verifier = PasswordVerifier()
    asked = [asyncio.create_task(verifier.verify("x", None)) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)  # lets the loop run once, so that all of them wait
    with pytest.raises(Busy):
        await verifier.verify("x", None)
    go.set()
    done: list[object] = list(await asyncio.gather(*asked))
    assert [*done, await verifier.verify("x", None)] == [True] * (WAITING_MAX + 1)
    assert most <= VERIFICATIONS_MAX
