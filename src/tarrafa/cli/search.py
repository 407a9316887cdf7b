"""Commands `search` and `query-log`, and the --shard options for searching the indexes of other machines.

tarrafa serve --as-shard           lets others ask this machine's index
tarrafa serve --shard URL          asks theirs, and shows one ranking; so does search --shard URL

The command that asks.

tarrafa search WORDS             what was crawled, while the crawl runs
tarrafa search --related URL     pages like one
tarrafa search --suggest BEGIN   how a search may go on

The options are those of the search page, by the same names.

What do people ask? The command and how it looks.
"""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from tarrafa.cli import frontier
from tarrafa.cli.options import DEFAULT_DATA, CollectionFilter, Data, Json
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
        help="Search the index of another machine, too: where its `tarrafa serve --as-shard` listens.",
        show_default=False,
    ),
]


def remote_shards(urls: Sequence[str] | None, token: Token) -> list[RemoteShard]:
    """The shards of other machines, as the command line names them."""
    shards = [RemoteShard(url, token) for url in urls or ()]
    names = [shard.name for shard in shards]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--shard {twice[0]}: named twice; everything there would be found twice")
    if len(names) > SHARDS_MAX:
        raise ConfigError(f"--shard: at most {SHARDS_MAX} can be asked at once")
    return shards


def print_shard_states(shards: Sequence[RemoteShard]) -> None:
    """Say of each whether it answers."""
    if not shards:
        return

    def state(shard: RemoteShard) -> str:
        try:
            return f"{shard.documents():,} documents"
        except TarrafaError as error:
            return f"{error}; it is asked again"

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
        help='Words; +must, -not, "a phrase", OR, ( ), ca*, site:, host:, inurl:, intitle:, filetype:, lang:, '
        "after:, before:, link:, type:.",
        show_default=False,
    ),
]


def search(
    query: Words = None,
    data: Data = DEFAULT_DATA,
    n: Annotated[int, typer.Option("--results", min=1, max=100, help="How many results.")] = 10,
    offset: Annotated[int, typer.Option(min=0, help="Skip so many.")] = 0,
    all_words: Annotated[bool, typer.Option("--all", help="Every word must be there.")] = False,
    natural: Annotated[
        bool, typer.Option("--natural", help="Leave out words that stand in more than half of the pages.")
    ] = False,
    expand: Annotated[bool, typer.Option("--expand", help="Add words that go with the best of what is found.")] = False,
    sort: Annotated[Sort, typer.Option(help="What stands first.")] = Sort.RELEVANCE,
    recent: Annotated[bool, typer.Option("--recent", help="New pages before old ones that match alike.")] = False,
    copies: Annotated[bool, typer.Option("--copies", help="Show pages that say the same each by itself.")] = False,
    crowded: Annotated[bool, typer.Option("--crowded", help="Show any number of pages of a site in a row.")] = False,
    like: Annotated[str, typer.Option(metavar="URL", help="Only this page and its copies.", show_default=False)] = "",
    related: Annotated[
        str, typer.Option(metavar="URL", help="Pages like this one; words are a further condition.", show_default=False)
    ] = "",
    suggest: Annotated[bool, typer.Option("--suggest", help="How the words may go on, instead of results.")] = False,
    collection: CollectionFilter = None,
    shard: ShardUrls = None,
    token_file: frontier.TokenFile = None,
    as_json: Json = False,
) -> None:
    """Search what was crawled; works while the crawl runs."""
    from tarrafa.cli.output import terminal
    from tarrafa.runtime.token import load_token
    from tarrafa.search.request import SearchRequest
    from tarrafa.search.searcher import ONE_SEARCH_WAIT_S, Searcher

    directory, text = DataDirectory(data), " ".join(query or [])
    if not text and not related:
        raise ConfigError("search: give words to look for, or --related URL")
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
    days: Annotated[int, typer.Option(min=1, max=90, help="How many days back, today included.")] = 30,
    n: Annotated[int, typer.Option("-n", min=1, max=1_000, help="How many of each.")] = 20,
    as_json: Json = False,
) -> None:
    """Show what was searched for most, and what was searched for in vain.

    `tarrafa serve` notes each text by the day, and nothing about whoever asked.
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
