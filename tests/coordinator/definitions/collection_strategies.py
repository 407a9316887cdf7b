"""Collections of every kind, for hypothesis."""

import string
from typing import Any

from hypothesis import strategies as st

from tarrafa.config import Collection
from tarrafa.crawl.scope.collection_loader import complete_collection
from tarrafa.parse.language import CODES

LABEL = st.text("abcxyz", min_size=1, max_size=3)
HOST = st.builds("{}.{}.br".format, LABEL, LABEL)
HOST_PATTERN = st.one_of(HOST, HOST.map("*.{}".format), st.just("*"), HOST.map("{}:8080".format))
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
PRINTABLE = st.text(string.ascii_letters + ' ="-#é€', max_size=12)
ROOT = st.builds("http://{}/{}".format, HOST, st.text(string.ascii_lowercase + "/?=&%é #", max_size=12))
SECONDS = st.one_of(
    st.integers(0, 10**6), st.floats(0, 10**6), st.sampled_from([0.5, 90, 3600, 86_400, 0.001, 1 / 3, 604_800])
)
COUNT = st.integers(1, 10**9)


def optional(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keys)


def lists(entries: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(entries, min_size=least, max_size=3)


NUMBERS = st.one_of(st.integers(0, 100), st.floats(0, 1e6))
TABLES = st.fixed_dictionaries(
    {"name": st.text(string.ascii_lowercase, min_size=1, max_size=5), "roots": lists(ROOT, 1)},
    optional={
        "scope": optional(
            hosts=lists(HOST_PATTERN),
            include=lists(TEXT.filter(str.strip)),
            exclude=lists(TEXT),
            types=lists(st.sampled_from(["text/html", "image/*", "text/plain"]), 1),
            size_max=st.one_of(COUNT, st.sampled_from([2_000_000, 1 << 20, 1_500, 1 << 30])),
            depth_max=st.integers(0, 100),
            pages_max=COUNT,
            requests_max=COUNT,
            languages=lists(st.sampled_from(sorted(CODES))),
            beyond=st.booleans(),
        ),
        "politeness": optional(
            delay=SECONDS,
            delay_max=st.floats(10**6, 10**9),
            delays=st.dictionaries(HOST_PATTERN, st.floats(0, 300), max_size=2),
            delay_factor=NUMBERS,
            per_ip=st.booleans(),
            robots=st.sampled_from(["obey", "ignore"]),
            contact=PRINTABLE.map(lambda text: f"{text} <bot@a.br>"),
            user_agent=st.sampled_from(["Tarrafa", "X/1.0 (a b)"]),
        ).map(lambda table: table | {"delay_max": 10**7}),
        "fetch": optional(
            time_max=st.floats(1, 10**6), hosts_at_once=COUNT, retries=st.integers(0, 9), feeds=st.booleans()
        ),
        "strategy": optional(
            order=st.sampled_from(["breadth", "backlinks", "fifo", "lifo", "random"]),
            favour=lists(HOST_PATTERN),
            penalise=lists(TEXT.filter(str.strip)),
            weights=optional(length=NUMBERS, block=NUMBERS, penalty=NUMBERS),
        ),
        "revisit": optional(
            policy=st.sampled_from(["index", "never", "uniform"]),
            rate=st.floats(1e-6, 1e6),
            share=st.floats(0.001, 1),
            horizon=st.floats(60, 1e6),
        ),
        "schedule": optional(
            start=st.datetimes().map(lambda at: at.replace(microsecond=0)),
            timezone=st.sampled_from(["UTC", "America/Sao_Paulo"]),
        ),
        "notify": optional(
            webhook=st.just("https://a.br/hook"),
            email=lists(st.just("x@a.br")),
            events=lists(st.sampled_from(["started", "finished"])),
            stalled=st.floats(10, 1e6),
        ),
        "network": optional(
            connect_to=st.dictionaries(TEXT, st.just("127.0.0.1:80"), max_size=2),
            allow_private=st.booleans(),
            suffixes=lists(st.just("br.test")),
        ),
        "identity": optional(fold_case=st.booleans(), strip_slash=st.booleans()),
    },
)


def completed(table: dict[str, Any]) -> Collection:
    return complete_collection(table, "test")


COLLECTIONS = TABLES.map(completed)
