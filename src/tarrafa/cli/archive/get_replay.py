"""Command `get-replay`: fetches wabac.js, a program of others that replays archived pages in the browser."""

from typing import Annotated

import typer

from tarrafa.runtime.terminal import print_line
from tarrafa.server.replay.wabac_package import LICENCE, NAME, VERSION, install_package


def get_replay(
    source: Annotated[
        str, typer.Argument(help="File or URL of the npm package, if npm cannot be reached.", show_default=False)
    ] = "",
) -> None:
    """Fetch wabac.js, which replays archived pages in the browser.

    It comes from npm, for `serve --replay-url`: a program of others under the AGPL-3.0-or-later, which Tarrafa does not
    contain. Nothing is installed unless its SHA-512 is the expected one.
    """
    path = install_package(source)
    print_line(f"{NAME} {VERSION} ({LICENCE}): {path}")
