"""The command that asks.

tarrafa search WORDS             what was crawled, while the crawl runs
tarrafa search --related URL     pages like one
tarrafa search --suggest BEGIN   how a search may go on

The options are those of the search page, by the same names.
"""

from typing import Annotated

import typer

from tarrafa.cli import cluster, sharing
from tarrafa.cli.options import DEFAULT_DATA, Data, Json, CollectionFilter
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError
from tarrafa.search.question import Sort

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
    shard: sharing.ShardUrls = None,
    token_file: cluster.TokenFile = None,
    as_json: Json = False,
) -> None:
    """Search what was crawled; works while the crawl runs."""
    from tarrafa.cli import show
    from tarrafa.frontier.token import load_token
    from tarrafa.search.question import SearchRequest
    from tarrafa.search.searcher import ONE_SEARCH_WAIT_S, Searcher

    directory, text = DataDirectory(data), " ".join(query or [])
    if not text and not related:
        raise ConfigError("search: give words to look for, or --related URL")
    if not shard or directory.version.exists():
        directory.check_version()
    searcher = Searcher.open(directory, sharing.remote_shards(shard, load_token(token_file)) if shard else [], ONE_SEARCH_WAIT_S)
    if suggest:
        show.print_suggestions(searcher.suggest(text, n), as_json)
        return
    question = SearchRequest(
        text, n, offset, collection, all_words=all_words, natural=natural, expand=expand, sort=sort, recent=recent,
        copies=copies, like=like, crowded=crowded, related=related,
    )  # fmt: skip
    result = searcher.search(question)
    if as_json:
        show.print_json(result)
    else:
        show.print_hits(result, offset, is_scored=sort is Sort.RELEVANCE)
