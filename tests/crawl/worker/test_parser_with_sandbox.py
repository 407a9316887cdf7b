"""One document can never take more than so much, and the worker goes on."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tarrafa.crawl.worker.parser_with_sandbox import (
    IN_PROCESS_BYTES_MAX,
    IN_PROCESS_PRODUCT_MAX,
    DecodedBody,
    ParseJob,
    ParseJobResult,
    ParserWithSandbox,
    is_harmless,
    run_parse_job,
)
from tarrafa.model import UrlRole
from tests.journey.crawl_journey import pids_of
from tests.wait import WAIT_MAX_S

PAGE_ROLE, SITEMAP_ROLE = int(UrlRole.PAGE), int(UrlRole.SITEMAP)
PAGE = "<title>Rede</title><p>O pescador lança a rede. <a href=/x>x</a>".encode()
GREEDY = b"<p>" + b"".join(b"<b id=%d>" % n for n in range(500)) + b"<p>x" * 50_000  # 15 s and 3 GB if let


def job(body: bytes, kind: str = "text/html; charset=utf-8") -> ParseJob:
    return ParseJob(PAGE_ROLE, body, "http://a.br/", kind)


@pytest.fixture
async def parser() -> AsyncIterator[ParserWithSandbox]:
    parser = ParserWithSandbox()
    yield parser
    parser.close()


def children() -> list[int]:
    """Our processes that read. There may be others: multiprocessing keeps one of its own once it has spawned any."""
    return pids_of(os.getpid(), "tarrafa.crawl.worker.parser_with_sandbox")


def large(body: bytes) -> bytes:
    """So large that it is read elsewhere."""
    return body + b"<!--" + b"x" * 100_000 + b"-->"


async def test_the_process_that_reads_has_no_secret_in_its_environment(parser, monkeypatch):
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "of-the-store", "PGPASSWORD": "of-the-database", "TARRAFA_TOKEN": "of-the-nodes",
        "TARRAFA_FRONTIER": "postgresql://u:of-the-url@h/d", "TARRAFA_WEBHOOK_SECRET": "of-the-webhook",
    }  # fmt: skip
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HARMLESS", "of-no-use")
    await parser.parse(job(large(PAGE)))
    (child,) = children()
    environment = Path(f"/proc/{child}/environ").read_bytes()
    assert b"of-no-use" in environment and b"of-the" not in environment


def test_small_and_plain_pages_are_tame():
    assert is_harmless(job(PAGE * 100))
    assert is_harmless(job(b"<p><b>x</b>" * 300))


@given(st.lists(st.sampled_from([b"<b>", b"<B/", b"<em ", b"<Strong\n", b"<bx>", b"<a>", b"</b>", b"<s", b"<", b"u>"])))
@example([b"<b>"] * 547)
@example([b"<b>"] * 548)
@example([b"<p>"] * 10_000 + [b"<i>"] * 30)
def test_a_page_is_harmless_if_formatting_tags_times_all_tags_are_few(pieces):
    for body in (b"".join(pieces), b"".join(pieces) * 40):
        formatting = re.findall(rb"(?i)<(?:b|big|code|em|font|i|s|small|strike|strong|tt|u)[\s/>]", body)
        assert is_harmless(job(body)) == (
            len(body) <= IN_PROCESS_BYTES_MAX and len(formatting) * body.count(b"<") <= IN_PROCESS_PRODUCT_MAX
        )


ODD = b'<script type="application/ld+json">{"@context": {"x": "http://a.br/x"}, "x": {"@set": ["y"]}}</script>'
USUAL = b'<script type="application/ld+json">{"@context": "https://schema.org", "@type": "Person"}</script>'


@pytest.mark.parametrize(("block", "started"), [(USUAL, False), (ODD, True)])
async def test_data_that_needs_a_parser_which_may_crash_is_read_elsewhere(
    parser: ParserWithSandbox, block: bytes, started: bool
) -> None:
    assert is_harmless(job(PAGE + block))
    before = children()
    found = await parser.parse(job(PAGE + block))
    assert found == run_parse_job(job(PAGE + block))
    assert found.page is not None
    assert found.page.statements
    assert (children() != before) is started


@pytest.mark.parametrize(
    "body",
    [
        large(PAGE),
        b"<p>" + b"".join(b"<B ID=%d>" % n for n in range(500)) + b"<p>x" * 1000,
        PAGE.decode().encode("utf-16"),
        b"<\x1b(Bb>" + PAGE,
    ],
    ids=["large", "many formatting tags", "UTF-16", "an encoding with escapes"],
)
def test_what_could_cost_much_is_not(body):
    assert not is_harmless(job(body))


def test_other_documents_are_never_tame():
    assert not is_harmless(job(PAGE, "application/pdf"))
    assert not is_harmless(job(PAGE, ""))


def test_a_sitemap_is_tame_if_it_is_small_and_not_packed():
    assert is_harmless(ParseJob(SITEMAP_ROLE, b"<urlset/>", "http://a.br/sitemap.xml", "application/xml"))
    assert not is_harmless(ParseJob(SITEMAP_ROLE, b"\x1f\x8b\x08...", "http://a.br/sitemap.xml", "application/xml"))
    assert not is_harmless(
        ParseJob(SITEMAP_ROLE, b"<urlset/>" + b" " * 100_000, "http://a.br/sitemap.xml", "application/xml")
    )


async def test_a_page_read_elsewhere_is_the_page_read_here(parser: ParserWithSandbox) -> None:
    assert await parser.parse(job(large(PAGE))) == run_parse_job(job(large(PAGE)))
    listing = ParseJob(SITEMAP_ROLE, b"http://a.br/1\n" * 10_000, "http://a.br/sitemap.txt", "text/plain")
    assert (await parser.parse(listing)).listing == run_parse_job(listing).listing
    assert len(children()) == 1, "one process for all"


async def test_a_page_that_asks_for_too_much_is_hostile_and_the_next_one_is_read(parser: ParserWithSandbox) -> None:
    said = await parser.parse(job(GREEDY))
    assert said.hostile
    assert "too much" in str(said.refusal)
    assert (await parser.parse(job(large(PAGE)))).page == run_parse_job(job(large(PAGE))).page


def process_is_asked(parser: ParserWithSandbox, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when the next page goes to the process."""
    asked, ensure_started = asyncio.Event(), parser._process.ensure_started

    async def watched() -> None:
        await ensure_started()
        asked.set()

    monkeypatch.setattr(parser._process, "ensure_started", watched)
    return asked


async def test_whoever_kills_the_process_costs_one_page(
    parser: ParserWithSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parser.parse(job(large(PAGE)))
    (child,) = children()
    os.kill(child, signal.SIGSTOP)
    asked = process_is_asked(parser, monkeypatch)
    pending = asyncio.create_task(parser.parse(job(large(PAGE))))
    await asyncio.wait_for(
        asked.wait(), WAIT_MAX_S
    )  # one that is killed before it has the page is replaced, and the page is read
    os.kill(child, signal.SIGKILL)
    assert (await pending).hostile
    assert (await parser.parse(job(large(PAGE)))).page is not None


async def test_a_process_that_dies_before_it_is_ready_costs_nothing(
    parser: ParserWithSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []
    popen = subprocess.Popen

    def start(arguments, **settings):
        starts.append(arguments)
        return popen(["/bin/false"] if len(starts) == 1 else arguments, **settings)

    monkeypatch.setattr("tarrafa.runtime.sandbox.subprocess.Popen", start)

    assert (await parser.parse(job(large(PAGE)))).page is not None
    assert len(starts) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give up the network for certain")
async def test_the_process_has_no_network(parser: ParserWithSandbox) -> None:
    await parser.parse(job(large(PAGE)))
    (child,) = children()
    assert Path(f"/proc/{child}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


async def test_a_caller_that_goes_away_confuses_nobody(
    parser: ParserWithSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parser.parse(job(large(PAGE)))
    asked = process_is_asked(parser, monkeypatch)
    first = asyncio.create_task(parser.parse(job(large(PAGE * 20))))
    await asyncio.wait_for(asked.wait(), WAIT_MAX_S)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    other = large(b"<title>Outra</title>")
    answer = await parser.parse(job(other))
    assert answer == ParseJobResult(page=run_parse_job(job(other)).page)


async def test_a_commit_does_not_wait_until_the_pages_of_all_hosts_are_parsed(parser: ParserWithSandbox) -> None:
    decoded, at_commit = list[int](), list[int]()

    def decode(number: int) -> DecodedBody:
        decoded.append(number)
        return DecodedBody(status=404)

    async def commit() -> None:
        for _ in range(5):  # disk and frontier: it goes on in another round of the event loop each time
            await asyncio.sleep(0)
        at_commit.append(len(decoded))

    pages = [parser.decode_and_parse(partial(decode, number), heavy=number < 20) for number in range(100)]
    await asyncio.gather(*pages, commit())
    assert at_commit[0] < 10
    assert decoded == list(range(100)), "in the order of their answers, sitemaps too"


async def test_a_session_that_is_cancelled_leaves_its_turn_to_the_next(parser: ParserWithSandbox) -> None:
    first = asyncio.create_task(parser.decode_and_parse(DecodedBody, heavy=False))
    cancelled, last = [asyncio.create_task(parser.decode_and_parse(DecodedBody, heavy=False)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not parser.parses_later, "two wait"
    cancelled.cancel()
    assert await first == await last == (DecodedBody(), None)
    assert parser.parses_later


def test_a_small_style_is_read_here_and_a_frame_as_a_page_would_be() -> None:
    style = ParseJob(int(UrlRole.REQUISITE), b"a { b: url(x.png) }", "http://a.br/s", "text/css", requisites_max=9)
    assert is_harmless(style)
    assert run_parse_job(style).requisites == ("http://a.br/x.png",)
    frame = b"<b>" * 5_000
    assert not is_harmless(ParseJob(int(UrlRole.REQUISITE), frame, "http://a.br/f", "text/html", requisites_max=9))
