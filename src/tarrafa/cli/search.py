"""Commands `search`, `query-log` and `curation check`: search options and excluded words (`-praia`), printed hits,
searches in the indexes of other machines (--shard).
"""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json, TokenFile, existing_data
from tarrafa.cli.output import console, print_json, print_result
from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.model import SearchResult
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.listen_address import is_listen_address_local
from tarrafa.runtime.terminal import counted, print_line, print_note
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token, load_token
from tarrafa.search.curation import path_of, read_rules
from tarrafa.search.remote_shard import RemoteShard
from tarrafa.search.request import SearchRequest, Sort
from tarrafa.search.searcher import ONE_SEARCH_WAIT_S, Searcher
from tarrafa.server.search.query_log import QueryReport, query_report

SHARDS_MAX = 256

ShardUrls = Annotated[
    list[str] | None,
    typer.Option(
        "--shard",
        metavar="URL",
        help="Also search the index of another machine, at the URL of its `tarrafa serve --as-shard`.",
        show_default=False,
    ),
]


def remote_shards(urls: Sequence[str] | None, token: Token) -> list[RemoteShard]:
    """The shards of other machines, as the command line names them."""
    shards = [RemoteShard(url, token) for url in urls or ()]
    names = [shard.name for shard in shards]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--shard {twice[0]}: named twice; its pages would be found twice")
    if len(names) > SHARDS_MAX:
        raise ConfigError(f"--shard: at most {SHARDS_MAX} can be searched at once")
    return shards


def print_shard_states(shards: Sequence[RemoteShard]) -> None:
    """Print of each shard whether it answers."""
    if not shards:
        return

    def state(shard: RemoteShard) -> str:
        try:
            return counted(shard.documents(), "document")
        except TarrafaError as error:
            return f"{error}; will be retried"

    with ThreadPoolExecutor(len(shards)) as pool:
        for shard, answer in zip(shards, pool.map(state, shards), strict=True):
            print_note(f"shard {shard.name}: {answer}")


def shard_token(token_file: Path | None, host: str) -> Token:
    """The token for requests of other machines; required if they can reach this address."""
    token = load_token(token_file)
    if not token and not is_listen_address_local(host, "--host"):
        raise ConfigError(
            f"--as-shard --host {host}: other machines can reach this address, so it needs a token: --token-file FILE, "
            f"or the environment variable {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
        )
    return token


Words = Annotated[
    list[str] | None,
    typer.Argument(
        help='Query: words, +must, -not, "a phrase", OR, ( ), ca*, site:, host:, inurl:, intitle:, filetype:, lang:, '
        "after:, before:, link:, type:.",
        show_default=False,
    ),
]


EXCLUDED_WORD = re.compile(r"-(?!-|n\d*$)")  # -praia; not --data, not -n 5
WORD_MARK = "\0"  # no argument holds it


class SearchCommand(TyperCommand):
    """Parses the arguments of `search`. Excluded words (`-praia`) belong to the query; any other option must exist."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        context = {**(settings.pop("context_settings", None) or {}), "help_option_names": ["--help"]}
        super().__init__(name, context_settings=context, **settings)  # -h is an excluded word

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        before_values = {name for one in self.params for name in one.opts if not getattr(one, "is_flag", True)}
        marked = [
            f"{WORD_MARK}{word}" if EXCLUDED_WORD.match(word) and before not in before_values else word
            for before, word in pairwise(["", *args])
        ]
        rest = super().parse_args(ctx, marked)
        ctx.params["query"] = [word.removeprefix(WORD_MARK) for word in ctx.params["query"] or ()]
        return rest


def search(
    query: Words = None,
    data: Data = DEFAULT_DATA,
    n: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Number of results.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Results to skip.")] = 0,
    all_words: Annotated[bool, typer.Option("--all", help="Pages must contain all words.")] = False,
    natural: Annotated[
        bool, typer.Option("--natural", help="Ignore words that occur in more than half of the pages.")
    ] = False,
    expand: Annotated[bool, typer.Option("--expand", help="Add words that are typical of the best results.")] = False,
    sort: Annotated[Sort, typer.Option(help="Order of the results.")] = Sort.RELEVANCE,
    recent: Annotated[bool, typer.Option("--recent", help="Prefer new pages among equal matches.")] = False,
    copies: Annotated[bool, typer.Option("--copies", help="Show duplicates as separate results.")] = False,
    crowded: Annotated[bool, typer.Option("--crowded", help="Do not limit consecutive results of one site.")] = False,
    like: Annotated[
        str, typer.Option(metavar="URL", help="Only this page and its duplicates.", show_default=False)
    ] = "",
    related: Annotated[
        str, typer.Option(metavar="URL", help="Pages similar to this one; words narrow them.", show_default=False)
    ] = "",
    suggest: Annotated[bool, typer.Option("--suggest", help="Show query completions instead of results.")] = False,
    collection: CollectionFilter = None,
    shard: ShardUrls = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Search the crawled pages; also while the crawl runs."""
    directory, text = DataDirectory(data), " ".join(query or [])
    if not text and not related:
        raise ConfigError("search: give words, or --related URL")
    if not shard or directory.version.exists():
        directory.check_version()
    searcher = Searcher.open(
        directory, remote_shards(shard, load_token(token_file)) if shard else [], ONE_SEARCH_WAIT_S
    )
    if suggest:
        found = searcher.suggest(text, n)
        if as_json:
            print_json(found)
        else:
            for one in found:
                console.print(escape(one))
        return
    question = SearchRequest(
        text, n, offset, collection, all_words=all_words, natural=natural, expand=expand, sort=sort, recent=recent,
        copies=copies, like=like, crowded=crowded, related=related,
    )  # fmt: skip
    result = searcher.search(question)
    if as_json:
        print_json(result.in_english())
    else:
        print_hits(result, offset, is_scored=sort is Sort.RELEVANCE)


def print_hits(result: SearchResult, offset: int, is_scored: bool = True) -> None:
    """Print results. `is_scored`: they are ordered by score, so scores are shown."""
    for shard in result.shards:
        if shard.trouble:
            print_note(f"without {shard.name}: {shard.trouble}")
    if result.total and not result.hits:
        console.print(f"There are only {counted(result.total, 'result')}.")
    elif not result.hits or result.instead == "spelling":
        console.print(f"Nothing found for {escape(repr(result.query))} ({result.time_s * 1000:.1f} ms).")
    _print_query_changes(result)
    if not result.hits:
        return
    others = f" with all words, {result.others:,} with some" if result.others else ""
    console.print(f"{counted(result.total, 'page')}{others}, {result.time_s * 1000:.1f} ms\n")
    for number, hit in enumerate(result.hits, offset + 1):
        console.print(f"[bold]{number}. {escape(hit.title or hit.url)}[/]")
        console.print(f"   [green]{escape(hit.url)}[/]")
        console.print(f"   {escape(hit.snippet)}")
        for thing in hit.declared:
            facts = " · ".join([thing.name, *(f"{name.rpartition(':')[2]} {value}" for name, value in thing.facts)])
            console.print(f"   [cyan]{escape(thing.kind)}[/] {escape(facts)}")
        copies = f" · and {counted(hit.copies, 'copy', 'copies')}" if hit.copies else ""
        score = "pinned · " if hit.pinned else f"score {hit.score:.2f} · " if is_scored else ""
        facts = (
            f"{score}{counted(hit.in_links, 'in-link')} · {hit.date_kind} {hit.updated[:10]} · {hit.language}{copies}"
        )
        console.print(f"   [dim]{facts}[/]\n")


def _print_query_changes(result: SearchResult) -> None:
    """How the searched query differs from the typed one."""
    if result.suggestion:
        console.print(f"Did you mean: [bold]{escape(result.suggestion)}[/]")
    if result.instead:
        console.print(
            {"spelling": "Results for that spelling:", "some": "No page holds all of the words; these hold some:"}[
                result.instead
            ]
        )
    elif result.expanded:
        console.print(f"Also looked for: {escape(', '.join(result.expanded))}")
    if result.ignored:
        console.print(f"Ignored, because nearly every page contains them: {escape(', '.join(result.ignored))}")


def query_log(
    data: Data = DEFAULT_DATA,
    days: Annotated[int, typer.Option(min=1, max=90, help="Number of days, including today.")] = 30,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000, help="Number of queries in each list.")] = 20,
    as_json: Json = False,
) -> None:
    """Show frequent searches, and searches without results.

    `tarrafa serve` counts each query text per day, and stores nothing about the person who searches.
    """
    print_result(query_report(existing_data(data), time.time(), days, n), as_json, _print_query_report)


def _print_query_report(shown: QueryReport) -> None:
    days = counted(shown.days, "day")
    if not shown.asked:
        console.print(f"No searches in {days}.")
        return
    sums = f"{counted(shown.asked, 'search', 'searches')} in {days}, {shown.empty:,} without results"
    unkept = f"; the texts of {shown.unkept:,} were not kept" if shown.unkept else ""
    console.print(f"{sums}{unkept}\n")
    for title, some in (("most frequent", shown.top), ("without results", shown.zero)):
        if some:
            console.print(f"[bold]{title}[/]")
        for one in some:
            found = f"  [dim]{counted(one.hits, 'page')}[/]" if one.hits else ""
            console.print(f"  {one.times:>6,}  {escape(one.query)}{found}")


curation_app = typer.Typer(no_args_is_help=True, help="Check the search curation file (synonyms, pinned sites).")


@curation_app.command("check")
def check_curation(
    data: Data = DEFAULT_DATA,
    file: Annotated[Path | None, typer.Option("--file", help="Check this file instead of DATA/search.toml.")] = None,
    as_json: Json = False,
) -> None:
    """Check the curation file and show its rules; exit status 2 if it is wrong.

    While the file is wrong, the last correct rules stay in force. A correct file holds from the next search on.
    """
    path = file or path_of(existing_data(data))
    if file is not None and not file.exists():
        raise ConfigError(f"{file}: no such file")
    found, _ = read_rules(path)
    if as_json:
        print_json({"file": str(path), "exists": path.exists(), "rules": found})
        return
    counts = (
        (len(found.groups), "group of synonyms", "groups of synonyms"),
        (sum(map(len, found.pins.values())), "pinned page", "pinned pages"),
        (len(found.lowered), "lowered site", "lowered sites"),
        (len(found.blocked), "blocked site", "blocked sites"),
    )
    text = ", ".join(f"{count:,} {one if count == 1 else many}" for count, one, many in counts)
    print_line(f"{path}: {text}" if path.exists() else f"{path}: no such file, so no rules")
