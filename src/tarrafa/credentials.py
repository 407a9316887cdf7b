"""Credentials for crawled sites: headers, cookies and passwords, stored per collection and sent only to the hosts they
name.

    DATA/secrets/NAME.json    the credentials of the collection of that name; readable by the owner only (0600)

A credential is a header, a cookie or a user name with its password, for hosts named by patterns. Credentials are in no
configuration, because that is archived and shown; nor in any command line, environment, message, log or record.
Promises: a credential is sent only to the hosts of its own patterns, for its own collection; and only over TLS with a
valid certificate, unless its entry allows insecure connections. A file that other users may read, or that is invalid,
is refused; a reader that has read a valid one before keeps using that. When `write` returns, the file is on the disk.
Knows nothing of HTTP clients, frontiers or archives.
"""

import contextlib
import fcntl
import logging
import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tarrafa.clock import boottime
from tarrafa.config.formats import COLLECTION_NAME, HOST_PATTERN
from tarrafa.config.sections import HostPatternTable
from tarrafa.errors import ConfigError, DataError, write_errors
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, sync_directory

CREDENTIALS_MAX, PATTERNS_MAX = 200, 100  # of a collection; of a credential
VALUE_CHARS_MAX, NAME_CHARS_MAX = 8_000, 200
FILE_BYTES_MAX, BUNDLE_BYTES_MAX = 4 << 20, 64 << 20
RELOAD_EVERY_S = 1.0
MASKED_CHARS_MIN, MASKED_PART_MIN = 8, 16  # a shorter one, or part of a cookie, may occur anywhere by chance
SET_COOKIE = re.compile(rb"(?im)^(set-cookie2?[ \t]*:[ \t]*(?:[^=;\r\n]*=)?)((?:[^;\r\n]|\r?\n[ \t])*)")
HTTP_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 section 5.6.2
# Headers that frame a request, identify the crawler or hold validators may not be set by a credential.
RESERVED_HEADERS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "from", "host",
    "if-modified-since", "if-none-match", "keep-alive", "range", "te", "trailer", "transfer-encoding", "upgrade",
    "user-agent", "via",
})  # fmt: skip

CredentialKind = Literal["header", "cookie", "basic"]
HeaderLine = tuple[str, str]  # name and value of a header
log = logging.getLogger(__name__)


class Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file. `name` is the header's, or the user's; a cookie needs none."""

    hosts: Annotated[tuple[str, ...], Meta(min_length=1, max_length=PATTERNS_MAX)]
    kind: CredentialKind
    name: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
    value: Annotated[str, Meta(min_length=1, max_length=VALUE_CHARS_MAX)]
    insecure: bool = False  # may be sent without TLS

    def __repr__(self) -> str:
        return f"Credential({self.redacted})"

    @property
    def redacted(self) -> "RedactedCredential":
        return RedactedCredential(self.hosts, self.kind, self.name, self.insecure)

    def header_line(self) -> HeaderLine:
        """The header line as sent."""
        if self.kind == "basic":  # RFC 7617: in UTF-8
            return "Authorization", f"Basic {b64encode(f'{self.name}:{self.value}'.encode()).decode()}"
        return ("Cookie" if self.kind == "cookie" else self.name), self.value

    def sensitive_texts(self) -> Iterator[str]:
        """All texts that reveal the credential, the whole before its parts."""
        sent = self.header_line()[1]
        whole = [sent, self.value, *(sent.split() if self.kind != "cookie" else ())]
        yield from (text for text in whole if len(text) >= MASKED_CHARS_MIN)
        if self.kind == "cookie":
            parts = (part.partition("=")[2].strip() for part in self.value.split(";"))
            yield from (text for text in parts if len(text) >= MASKED_PART_MIN)


class RedactedCredential(msgspec.Struct, frozen=True):
    """A credential without its secret, as anyone may see it."""

    hosts: tuple[str, ...]
    kind: CredentialKind
    name: str
    insecure: bool

    def __str__(self) -> str:
        what = {"header": f"header {self.name}", "cookie": "cookie", "basic": f"password of {self.name}"}[self.kind]
        return f"{what} for {', '.join(self.hosts)}{' (also without TLS)' if self.insecure else ''}"


def check(secret: Credential, where: str) -> Credential:
    """The credential if it is valid. The message of a `ConfigError` never contains the secret."""
    for is_wrong, problem in _checks(secret):
        if is_wrong:
            raise ConfigError(message("{where}: {problem}", where=where, problem=problem))
    return msgspec.structs.replace(secret, hosts=tuple(dict.fromkeys(one.lower() for one in secret.hosts)))


def _checks(secret: Credential) -> Iterator[tuple[bool, Message]]:
    bad = next((one for one in secret.hosts if not HOST_PATTERN.fullmatch(one) or one == "*" or len(one) > 300), None)
    yield not secret.hosts, message("name a host: the secret is sent to no other")
    yield (
        len(secret.hosts) > PATTERNS_MAX,
        message("{count} hosts are more than the {limit} allowed", count=len(secret.hosts), limit=PATTERNS_MAX),
    )
    yield (
        bad is not None,
        message(
            "{pattern!r} is no pattern such as www.a.br, *.a.br, a.br:8443 (* would be every host)",
            pattern=str(bad)[:80],
        ),
    )
    if secret.kind == "header":
        yield (
            not HTTP_TOKEN.fullmatch(secret.name),
            message("{name!r} is no header name such as X-Api-Key", name=secret.name[:80]),
        )
        reserved = secret.name.lower() in RESERVED_HEADERS or secret.name.lower().startswith(("proxy-", "sec-"))
        yield (
            reserved,
            message("the header {name} is set by the crawler; a secret needs another one", name=secret.name[:80]),
        )
    if secret.kind == "basic":
        yield not secret.name or ":" in secret.name, message("the user's name must not be empty or contain a colon")
        yield not secret.name.isprintable(), message("the user's name must be printable")
    yield len(secret.name) > NAME_CHARS_MAX, message("a name has at most {limit} characters", limit=NAME_CHARS_MAX)
    yield not secret.value, message("the secret is empty")
    yield len(secret.value) > VALUE_CHARS_MAX, message("a secret has at most {limit} characters", limit=VALUE_CHARS_MAX)
    yield (
        secret.value != secret.value.strip() and secret.kind != "basic",
        message("the secret begins or ends with a space"),
    )
    yield not secret.value.isprintable(), message("the secret must be one line of printable characters")
    plain = secret.value.isascii() or secret.kind == "basic"
    yield not plain, message("the value of a header or a cookie must be plain ASCII; the site escapes other characters")


# -- the files ---------------------------------------------------------------------------------------------------------


def credentials_dir(data: DataDirectory) -> Path:
    return data.root / "secrets"


def credentials_path(data: DataDirectory, name: str) -> Path:
    if not COLLECTION_NAME.fullmatch(name):
        raise ConfigError(
            message(
                "{name!r}: the name of a collection begins with a-z or 0-9, and has only a-z, 0-9, '.', '_' and '-'",
                name=name[:80],
            )
        )
    return credentials_dir(data) / f"{name}.json"


def read(data: DataDirectory, name: str) -> list[Credential]:
    """The credentials of a collection; `DataError` if other users could have read them, or if they are invalid."""
    path = credentials_path(data, name)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise DataError(
                    message(
                        "{path}: other users may read it ({mode:04o}); `chmod 600` it, and change the secrets",
                        path=path,
                        mode=mode,
                    )
                )
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(message("{path}: cannot be read ({error})", path=path, error=error.strerror or error)) from None
    found: list[Credential] = _decoded(content, list[Credential], str(path), FILE_BYTES_MAX)
    return found


def _decoded(content: bytes, kind: Any, where: str, bytes_max: int) -> Any:
    """Decode a file or bundle. An error names the location of the fault, never the text there."""
    if len(content) > bytes_max:
        raise DataError(message("{where}: larger than the {limit} MB allowed", where=where, limit=bytes_max >> 20))
    try:
        found = msgspec.json.decode(content, type=kind)
        groups: dict[str, list[Credential]] = found if isinstance(found, dict) else {"": found}
        for group in groups.values():
            if len(group) > CREDENTIALS_MAX:
                raise ConfigError(
                    message(
                        "{where}: {secrets} secrets are more than the {limit} allowed",
                        where=where,
                        secrets=len(group),
                        limit=str(CREDENTIALS_MAX),
                    )
                )
            for number, secret in enumerate(group):
                check(secret, f"{where}: entry {number + 1}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        place = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "it is not JSON"
        raise DataError(
            message(
                "{where}: is invalid ({place}); correct it, or delete it and add the secrets again",
                where=where,
                place=place,
            )
        ) from None
    except ConfigError as error:
        raise DataError(str(error)) from None
    return found


def write(data: DataDirectory, name: str, secrets: Sequence[Credential]) -> None:
    """Write all credentials of a collection at once, durably; without any, the file is deleted."""
    path = credentials_path(data, name)
    if len(secrets) > CREDENTIALS_MAX:
        raise ConfigError(
            message(
                "{name}: {secrets} secrets are more than the {limit} allowed",
                name=name,
                secrets=len(secrets),
                limit=str(CREDENTIALS_MAX),
            )
        )
    secrets = [check(secret, name) for secret in secrets]
    with _write_lock(data):
        _write(path, secrets)


def _write(path: Path, secrets: Sequence[Credential]) -> None:
    if not secrets:
        path.unlink(missing_ok=True)
    else:
        temporary = path.with_name(f"{path.name}.new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(secrets), indent=1))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    sync_directory(path.parent)


@contextmanager
def _write_lock(data: DataDirectory) -> Iterator[None]:
    """One writer at a time; no other user may read the folder."""
    where = credentials_dir(data)
    with write_errors(where):
        where.mkdir(mode=0o700, exist_ok=True)
        where.chmod(0o700)
        with (where / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def add(data: DataDirectory, name: str, secret: Credential) -> bool:
    """Add a credential, or replace one for the same hosts, kind and name. Returns whether it replaced one."""
    path, secret = credentials_path(data, name), check(secret, name)
    with _write_lock(data):
        stored = read(data, name)
        others = [one for one in stored if _key(one) != _key(secret)]
        if len(others) >= CREDENTIALS_MAX:
            raise ConfigError(
                message("{name}: has {limit} secrets already; remove one first", name=name, limit=str(CREDENTIALS_MAX))
            )
        _write(path, [*others, secret])
    return len(others) < len(stored)


def _key(secret: Credential) -> tuple[frozenset[str], str, str]:
    return frozenset(secret.hosts), secret.kind, secret.name.lower() if secret.kind == "header" else secret.name


def remove(
    data: DataDirectory, name: str, host: str, kind: CredentialKind | None = None, label: str | None = None
) -> int:
    """Remove a pattern from every credential (of that kind, with that name); a credential without hosts is deleted.
    Returns how many credentials had the pattern.
    """
    path, host = credentials_path(data, name), host.lower()
    with _write_lock(data):
        kept, touched = list[Credential](), 0
        for one in read(data, name):
            other_name = label is not None and label.lower() != one.name.lower()
            if host not in one.hosts or kind not in (None, one.kind) or other_name:
                kept.append(one)
                continue
            touched += 1
            if left := tuple(pattern for pattern in one.hosts if pattern != host):
                kept.append(msgspec.structs.replace(one, hosts=left))
        if touched:
            _write(path, kept)
    return touched


def list_redacted(data: DataDirectory, name: str) -> list[RedactedCredential]:
    """The credentials of a collection without their secrets."""
    return [secret.redacted for secret in read(data, name)]


def collections_with_credentials(data: DataDirectory) -> list[str]:
    """The collections that have credentials."""
    found = (path.stem for path in credentials_dir(data).glob("*.json")) if credentials_dir(data).is_dir() else ()
    return sorted(name for name in found if COLLECTION_NAME.fullmatch(name))


def export_bundle(data: DataDirectory) -> bytes:
    """The credentials of all collections, for a node that works for the same frontier."""
    content = msgspec.json.encode({name: read(data, name) for name in collections_with_credentials(data)})
    if len(content) > BUNDLE_BYTES_MAX:
        raise DataError(
            message(
                "{path}: more than the {limit} MB that can be sent to other machines",
                path=credentials_dir(data),
                limit=BUNDLE_BYTES_MAX >> 20,
            )
        )
    return content


def import_bundle(data: DataDirectory, content: bytes) -> None:
    """Replace all credentials by those of a bundle. An invalid bundle changes nothing."""
    found: dict[str, list[Credential]] = _decoded(
        content, dict[str, list[Credential]], "received secrets", BUNDLE_BYTES_MAX
    )
    paths = {name: credentials_path(data, name) for name in found}
    if not found and not credentials_dir(data).is_dir():
        return
    with _write_lock(data):
        for name, secrets in found.items():
            if _differs(data, name, secrets):
                _write(paths[name], secrets)
        for name in collections_with_credentials(data):
            if name not in found:
                _write(credentials_path(data, name), [])


def _differs(data: DataDirectory, name: str, secrets: list[Credential]) -> bool:
    """Whether the stored credentials differ: an unchanged file need not be read again by its readers."""
    with contextlib.suppress(DataError):
        return read(data, name) != secrets
    return True


# -- for senders -------------------------------------------------------------------------------------------------------


class CredentialSet:
    """One immutable state of a collection's credentials."""

    def __init__(self, secrets: Sequence[Credential] = ()) -> None:
        table: dict[str, list[Credential]] = {}
        for secret in secrets:
            for pattern in secret.hosts:
                table.setdefault(pattern, []).append(secret)
        self._closest = HostPatternTable(table)

    def for_host(self, name: str, port: str, *, private: bool) -> list[Credential]:
        """The credentials to send to a host; of several for one header, that with the most specific pattern. Not
        `private`: the connection may be overheard, or the host is not authenticated.
        """
        found: dict[str, Credential] = {}
        for group in self._closest.all_matches(name, port):
            for secret in reversed(group):  # the newest first
                found.setdefault(secret.header_line()[0].lower(), secret)
        return [secret for secret in found.values() if private or secret.insecure]


NEVER_READ: tuple[float, tuple[int, ...], CredentialSet] = (-RELOAD_EVERY_S, (), CredentialSet())


class CredentialCache:
    """The current credentials of a data directory: each file is checked at most once a second."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._known: dict[str, tuple[float, tuple[int, ...], CredentialSet]] = {}

    def for_collection(self, collection: str) -> CredentialSet:
        now = boottime()
        looked_at, seen, keys = self._known.get(collection, NEVER_READ)
        if now - looked_at < RELOAD_EVERY_S:
            return keys
        found = file_fingerprint(credentials_path(self._data, collection))
        if found != seen:
            try:
                keys = CredentialSet(read(self._data, collection))
            except DataError as error:
                log.error("%s; %s", error, "the former secrets are used" if seen else "no secret is sent")
        self._known[collection] = (now, found, keys)
        return keys


def mask_response_head(head: bytes, secrets: Sequence[Credential]) -> bytes:
    """The header block of a response with the secrets masked, in the same length. A server repeats what it received,
    and the cookies that it sets after a login are as good as the login.
    """
    head = SET_COOKIE.sub(lambda found: found[1] + b"*" * len(found[2]), head)
    for secret in secrets:
        for spelling in secret.sensitive_texts():
            head = head.replace(spelling.encode(), b"*" * len(spelling.encode()))
    return head
