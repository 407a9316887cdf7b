"""Commands `search` and `query-log`, and the options to search the indexes of other machines (--shard)."""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json, TokenFile
from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.frontier.rpc.frontier_server import is_loopback
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token, load_token
from tarrafa.search.remote_shard import RemoteShard
from tarrafa.search.request import Sort

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
    """Say of each whether it answers."""
    if not shards:
        return

    def state(shard: RemoteShard) -> str:
        try:
            return f"{shard.documents():,} documents"
        except TarrafaError as error:
            return f"{error}; will be retried"

    with ThreadPoolExecutor(len(shards)) as pool:
        for shard, said in zip(shards, pool.map(state, shards), strict=True):
            sys.stderr.write(f"shard {shard.name}: {said}\n")


def shard_token(token_file: Path | None, host: str) -> Token:
    """What others must know to ask this machine's index; beyond this machine there must be something."""
    token = load_token(token_file)
    if not token and not is_loopback(host, "--host"):
        raise ConfigError(
            f"--as-shard --host {host}: other machines can reach this address, so it needs a token: --token-file FILE, "
            f"or the environment variable {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
        )
    return token


SEARCH_CONTEXT = {"ignore_unknown_options": True, "help_option_names": ["--help"]}  # -not is a word that is left out

Words = Annotated[
    list[str] | None,
    typer.Argument(
        help='Query: words, +must, -not, "a phrase", OR, ( ), ca*, site:, host:, inurl:, intitle:, filetype:, lang:, '
        "after:, before:, link:, type:.",
        show_default=False,
    ),
]


def search(
    query: Words = None,
    data: Data = DEFAULT_DATA,
    n: Annotated[int, typer.Option("--results", min=1, max=100, help="Number of results.")] = 10,
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
    from tarrafa.cli.output import terminal
    from tarrafa.runtime.token import load_token
    from tarrafa.search.request import SearchRequest
    from tarrafa.search.searcher import ONE_SEARCH_WAIT_S, Searcher

    directory, text = DataDirectory(data), " ".join(query or [])
    if not text and not related:
        raise ConfigError("search: give words, or --related URL")
    if not shard or directory.version.exists():
        directory.check_version()
    searcher = Searcher.open(
        directory, remote_shards(shard, load_token(token_file)) if shard else [], ONE_SEARCH_WAIT_S
    )
    if suggest:
        terminal.print_suggestions(searcher.suggest(text, n), as_json)
        return
    question = SearchRequest(
        text, n, offset, collection, all_words=all_words, natural=natural, expand=expand, sort=sort, recent=recent,
        copies=copies, like=like, crowded=crowded, related=related,
    )  # fmt: skip
    result = searcher.search(question)
    if as_json:
        terminal.print_json(result.in_english())
    else:
        terminal.print_hits(result, offset, is_scored=sort is Sort.RELEVANCE)


def query_log(
    data: Data = DEFAULT_DATA,
    days: Annotated[int, typer.Option(min=1, max=90, help="Number of days, including today.")] = 30,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000, help="Number of queries in each list.")] = 20,
    as_json: Json = False,
) -> None:
    """Show frequent searches, and searches without results.

    `tarrafa serve` counts each query text per day, and stores nothing about the person who searches.
    """
    from tarrafa.cli.output import terminal
    from tarrafa.server.search.query_log import query_report

    directory = DataDirectory(data)
    directory.check_version()
    found = query_report(directory, time.time(), days, n)
    if as_json:
        terminal.print_json(found)
    else:
        terminal.print_query_report(found)
