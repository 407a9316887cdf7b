"""Serves static files (CSS, JavaScript, logo) under URLs that hold a content hash.

Promises: a browser requests each file once, and the new version as soon as it changes: the URL holds a hash of the
content. Requested without a hash, a file is revalidated each time.
"""

import hashlib
from functools import cache
from importlib import resources

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

PACKAGE, FOLDER = "tarrafa.server", "static"
CACHE_FOREVER = "public, max-age=31536000, immutable"


@cache
def asset_url(name: str) -> str:
    """The URL of a static file."""
    content = resources.files(PACKAGE).joinpath(FOLDER, name).read_bytes()
    return f"/{FOLDER}/{name}?v={hashlib.blake2s(content, digest_size=6).hexdigest()}"


class StaticAssets(StaticFiles):
    def __init__(self) -> None:
        super().__init__(packages=[(PACKAGE, FOLDER)])

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        url = f"/{FOLDER}/{path}?{scope['query_string'].decode('latin-1')}"
        if response.status_code < 400 and url == asset_url(path):
            response.headers["Cache-Control"] = CACHE_FOREVER
        return response
