"""The object store of the segment log: an S3 bucket, or a folder for trials.

`s3://BUCKET/PREFIX` is any store that speaks the protocol of S3; endpoint and keys come from the usual variables of the
environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION), never from the address.
`file:///FOLDER` is a folder that all machines see.
Promises: keys are never looked for where nobody named them: no request goes to the metadata service of a cloud unless
AWS_METADATA_ENDPOINT is set. An error says which store and which object. A store that does not answer is `Unreachable`,
and worth waiting for; a refusal and a missing object are not.
"""

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tarrafa.errors import ConfigError, DataError, Unreachable
from tarrafa.i18n import message

if TYPE_CHECKING:
    from obstore.store import S3Config

TIMEOUT_S, RETRIES_S = 30, 10
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
REGION_DEFAULT = "us-east-1"  # stores other than Amazon's ask for any
CREDENTIAL_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_METADATA_ENDPOINT", "AWS_SKIP_SIGNATURE",
)  # fmt: skip
LIST_CHUNK = 1_000
ADDRESS_CHARS_MAX = 500
ADDRESS_FORM = "s3://BUCKET/PREFIX, or file:///FOLDER for trials"


def check_address(url: str, where: str = "--store") -> str:
    """The address of a store in its normal form."""
    try:
        parts = urlsplit(url.strip())
        is_plain = not (parts.username or parts.password or parts.query or parts.fragment)
    except ValueError:
        raise ConfigError(f"{where}: {url[:80]!r}: must be {ADDRESS_FORM}") from None
    is_bucket = parts.scheme == "s3" and bool(parts.netloc)
    is_folder = parts.scheme == "file" and not parts.netloc and len(parts.path) > 1
    if not (is_bucket or is_folder) or len(url) > ADDRESS_CHARS_MAX or not url.isprintable():
        raise ConfigError(f"{where}: {url[:80]!r}: must be {ADDRESS_FORM}")
    if not is_plain:
        raise ConfigError(f"{where}: keys belong in the environment (AWS_ACCESS_KEY_ID…), not in the address")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


class StoreUnreachable(Unreachable):
    """The object store does not answer."""


class ObjectStore:
    """Objects by name. Calls block, and several threads may call."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
        except ImportError:
            raise ConfigError(f"{url}: needs the package obstore: install tarrafa[cluster]") from None
        self.url, self._obstore = check_address(url), obstore
        self._store = self._open(self.url)

    def _open(self, url: str) -> Any:
        from obstore.store import LocalStore, S3Store

        if url.startswith("file:"):
            return LocalStore(urlsplit(url).path, mkdir=True)
        if not any(map(os.environ.get, CREDENTIAL_VARIABLES)):
            raise ConfigError(
                message(
                    "{store}: no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment (the role of"
                    " a machine in a cloud: set AWS_METADATA_ENDPOINT)",
                    store=url,
                )
            )
        parts, endpoint = urlsplit(url), next(filter(None, map(os.environ.get, ENDPOINT_VARIABLES)), None)
        region = next(filter(None, map(os.environ.get, REGION_VARIABLES)), REGION_DEFAULT)
        timeout = timedelta(seconds=TIMEOUT_S)
        config: S3Config = {"endpoint": endpoint} if endpoint else {}
        return S3Store(
            parts.netloc,
            config=config,
            prefix=parts.path.strip("/") or None,
            region=region,
            client_options={
                "timeout": timeout,
                "connect_timeout": timedelta(seconds=RETRIES_S),
                "allow_http": bool(endpoint and endpoint.startswith("http://")),
            },
            retry_config={"retry_timeout": timedelta(seconds=RETRIES_S)},
        )

    def put(self, name: str, content: bytes | memoryview) -> None:
        with self._errors(name):
            self._obstore.put(self._store, name, content, use_multipart=False)

    def get(self, name: str, size: int) -> bytes:
        """A whole object, which is so long."""
        return self._get(name, 0, size, size + 1)

    def get_part(self, name: str, start: int, size: int) -> bytes:
        """Some bytes of an object, which is long enough."""
        return self._get(name, start, size, size)

    def _get(self, name: str, start: int, size: int, length: int) -> bytes:
        with self._errors(name):
            content = bytes(self._obstore.get_range(self._store, name, start=start, length=length)) if size else b""
        if len(content) != size:
            raise DataError(
                message(
                    "{store}/{name}: its length is not that of the manifest, {size}",
                    store=self.url,
                    name=name,
                    size=str(size),
                )
            )
        return content

    def put_file(self, name: str, path: Path) -> None:
        """A file of any length."""
        with self._errors(name):
            self._obstore.put(self._store, name, path)

    def names(self, prefix: str) -> Iterator[str]:
        """The names of all objects below a prefix."""
        with self._errors(prefix):
            for chunk in self._obstore.list(self._store, prefix, chunk_size=LIST_CHUNK):
                for one in chunk:
                    yield one["path"]

    def delete(self, names: list[str]) -> None:
        """Delete objects; those that are gone already are no error."""
        from obstore.exceptions import NotFoundError

        missing = (NotFoundError, FileNotFoundError)
        with self._errors(names[0] if names else ""):
            try:
                self._obstore.delete(self._store, names)
            except missing:
                for name in names:
                    with contextlib.suppress(*missing):
                        self._obstore.delete(self._store, name)

    def _errors(self, name: str) -> "_StoreErrors":
        return _StoreErrors(self.url, name)


class _StoreErrors:
    """Turns the errors of a store into ours, without its debugging output."""

    def __init__(self, url: str, name: str) -> None:
        self._url, self._name = url, name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: object) -> None:
        from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError, UnauthenticatedError

        if not isinstance(error, BaseError | OSError):
            return
        said = " ".join(str(error).split("Debug source:")[0].split())[:300]
        if isinstance(error, NotFoundError | FileNotFoundError):
            raise DataError(
                message("{store}/{name}: is missing in the store", store=self._url, name=self._name)
            ) from None
        if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            raise ConfigError(
                message("{store}: refuses us: {error}; see AWS_ACCESS_KEY_ID", store=self._url, error=said)
            ) from None
        raise StoreUnreachable(
            message("{store}: the store does not answer: {error}", store=self._url, error=said)
        ) from None
