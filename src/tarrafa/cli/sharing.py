"""Which machines does a search go to, and who may ask this one?

tarrafa serve --as-shard           lets others ask this machine's index
tarrafa serve --shard URL          asks theirs, and shows one ranking; so does search --shard URL
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer

from tarrafa.errors import ConfigError, TarrafaError
from tarrafa.frontier.door import is_loopback
from tarrafa.frontier.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token, load_token
from tarrafa.search.remote import RemoteShard

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
