"""Loads a collection file: reads it, completes it, and reports everything that is wrong with it.

A file, or a table from a form or a program, becomes a `Collection` with canonical roots and a scope that names its
hosts and vocabularies.
"""

import re
import ssl
import tomllib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tarrafa import config
from tarrafa.config import COMPLAINTS_MAX, Collection, Complaint
from tarrafa.config.formats import read_user_file
from tarrafa.errors import ConfigError
from tarrafa.i18n import joined, message
from tarrafa.parse.language import CODES, code_from_name
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.rdf.entity import VOCABULARY_LENGTH_MAX
from tarrafa.parse.rdf.prefixes import PREFIXES, expand_prefix, vocabulary_of
from tarrafa.parse.url import UrlIdentity, authority_of
from tarrafa.runtime.public_suffix_list import bundled_suffix_list

ROOTS_MAX = 1_000_000
VOCABULARIES_MAX = 100
COMMENT = re.compile(r"(?:^|\s)#")  # in a file of roots; a fragment has no space before it
HOST_PATTERN = re.compile(r"(?:[\w-]+(?:\.[\w-]+)+|localhost|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?(?:[/?].*)?")


def load_collection(path: Path) -> Collection:
    """Read a collection file. A root may be a URL or a bare host name; hosts absent means exactly the roots' hosts."""
    try:
        table = tomllib.loads(read_user_file(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    collection, wrong = config.validate_table(table)
    if collection is None:
        return _raise_complaints(None, wrong, str(path))
    roots, network = _roots_with_locations(collection, path), collection.network
    if network.ca_file is not None:  # relative to the collection file, and there
        file = path.parent / network.ca_file
        wrong = config.merge_complaints(wrong, _check_ca_file(file))
        network = replace(network, ca_file=str(file.resolve()))
    whole, more = _complete_collection(replace(collection, network=network), roots)
    return _raise_complaints(whole, config.merge_complaints(wrong, more), str(path))


def complete_collection(table: dict[str, Any], where: str, before: Collection | None = None) -> Collection:
    """Complete a table from a form or a program. Keys that name a file on this machine are refused, unless `before`,
    the definition in force, has the same value."""
    return _raise_complaints(*complete_and_validate_table(table, before), where)


def complete_and_validate_table(
    table: dict[str, Any], before: Collection | None = None
) -> tuple[Collection | None, list[Complaint]]:
    """Complete a table, with all complaints; the collection is None if there are any."""
    collection, found = config.validate_table(table)
    if collection is not None:
        found = config.merge_complaints(found, _check_file_options(collection, before))
        collection, more = _complete_collection(collection, _roots_with_locations(collection), before)
        found = config.merge_complaints(found, more)
    return (None if found else collection), found


def _roots_with_locations(collection: Collection, path: Path | None = None) -> list[tuple[str, str]]:
    """The roots as written, each with its location: in the collection itself, and in the `roots_file` that the file at
    `path` names."""
    roots = [(root, f"roots[{number}]") for number, root in enumerate(collection.roots)]
    if path is None or collection.roots_file is None:
        return roots
    try:
        lines = read_user_file(path.parent / collection.roots_file).splitlines()
    except ConfigError as error:
        raise ConfigError(f"{path}: roots_file: {error}") from None
    for number, line in enumerate(lines, 1):
        if root := COMMENT.split(line, maxsplit=1)[0].strip():
            roots.append((root, f"{collection.roots_file}:{number}"))
    return roots


def _raise_complaints(collection: Collection | None, wrong: list[Complaint], where: str) -> Collection:
    if wrong or collection is None:
        raise ConfigError(
            joined([message("{where}: {complaint}", where=where, complaint=one.message) for one in wrong], "\n")
        )
    return collection


def _check_file_options(collection: Collection, before: Collection | None) -> Iterator[Complaint]:
    if collection.roots_file is not None:
        yield Complaint(
            "",
            "roots_file",
            message("roots_file: only a collection file can name another file; give the roots themselves"),
        )
    ca_file = collection.network.ca_file
    if ca_file is not None and (before is None or ca_file != before.network.ca_file):
        yield Complaint(
            "network",
            "ca_file",
            message(
                "[network] ca_file: only a collection file on the crawler's own machine can name it "
                "(`tarrafa crawl FILE`)"
            ),
        )


def _complete_collection(
    collection: Collection, roots: list[tuple[str, str]], before: Collection | None = None
) -> tuple[Collection, list[Complaint]]:
    """The collection with canonical roots, its hosts and vocabularies; and the complaints."""
    canonical = frozenset[str]()
    if before is not None and before.identity == collection.identity:
        canonical = before.root_set
    urls, wrong = _canonical_roots(collection, roots, canonical)
    scope, named = collection.scope, list[str]()
    if (count := len(scope.vocabularies)) > VOCABULARIES_MAX:
        said = message(
            "[scope] vocabularies: {count} vocabularies are more than the {most} allowed",
            count=count,
            most=VOCABULARIES_MAX,
        )
        wrong.append(Complaint("scope", "vocabularies", said))
    for name in scope.vocabularies[:VOCABULARIES_MAX]:
        address = _vocabulary(name) if len(name) <= VOCABULARY_LENGTH_MAX else None
        if address is not None:
            named.append(address)
            continue
        said = message(
            "[scope] vocabularies: {name!r} is neither the address of a vocabulary, such as "
            "http://xmlns.com/foaf/0.1/, nor one of the short names {known}",
            name=name[:80],
            known=", ".join(PREFIXES),
        )
        wrong.append(Complaint("scope", "vocabularies", said))
    for name in scope.languages:
        if name not in CODES:
            said = message(
                "[scope] languages: {name!r} is not a known language; write the two letters of its code, "
                "such as {code}",
                name=name[:40],
                code=code_from_name(name) or "pt",
            )
            wrong.append(Complaint("scope", "languages", said))
    if collection.network.suffixes:
        try:
            public_suffixes_of(collection)
        except ConfigError as error:
            wrong.append(config.complaint_from_message(error.message))
    hosts = host_patterns_of(urls) if scope.hosts is None else scope.hosts
    scope = replace(scope, hosts=hosts, vocabularies=tuple(named))
    return replace(collection, roots=urls, roots_file=None, scope=scope), wrong


def _canonical_roots(
    collection: Collection, roots: list[tuple[str, str]], canonical: frozenset[str]
) -> tuple[tuple[str, ...], list[Complaint]]:
    """Canonical roots. Those in `canonical` are not parsed again: an edit usually adds one root to many."""
    if not roots:
        return (), [Complaint("", "roots", message("roots: at least one URL or host name is needed (or roots_file)"))]
    if len(roots) > ROOTS_MAX:
        return (), [
            Complaint(
                "",
                "roots",
                message("roots: {count} are more than the {roots_max} allowed", count=len(roots), roots_max=ROOTS_MAX),
            )
        ]
    identity, urls, wrong = url_identity_of(collection), dict[str, None](), list[Complaint]()
    for root, place in roots:
        url = root if root in canonical else parse_root(root, identity)
        if url is not None:
            urls[url] = None
        elif len(wrong) < COMPLAINTS_MAX:
            wrong.append(
                Complaint(
                    "",
                    "roots",
                    message("{place}: not an http(s) URL or a host name: {root!r}", place=place, root=root[:200]),
                )
            )
    return tuple(urls), wrong


def parse_root(text: str, identity: UrlIdentity) -> str | None:
    """Canonical URL of a typed URL or host name; None if it is neither."""
    text = f"http://{text}" if HOST_PATTERN.fullmatch(text) else text
    return identity.canonicalize(text) if "://" in text else None


def host_patterns_of(urls: Iterable[str]) -> tuple[str, ...]:
    """Patterns that match exactly the hosts of these URLs."""
    return tuple(dict.fromkeys(_host_pattern(url) for url in urls))


def _check_ca_file(file: Path) -> Iterator[Complaint]:
    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        why = "it holds no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        yield Complaint(
            "network",
            "ca_file",
            message("[network] ca_file: {file} cannot be used ({why})", file=str(file), why=str(why)),
        )


def _vocabulary(name: str) -> str | None:
    """`schema`, `schema:` or `https://schema.org/`."""
    address = expand_prefix(name if ":" in name else f"{name}:")
    return None if address is None or address != vocabulary_of(address) else address


def url_identity_of(collection: Collection) -> UrlIdentity:
    return UrlIdentity(collection.identity.fold_case, collection.identity.strip_slash)


def _host_pattern(url: str) -> str:
    authority = url.split("/", 3)[2]
    if ":" not in authority and "@" not in authority:
        return authority
    return authority_of(url)


def public_suffixes_of(collection: Collection) -> PublicSuffixes:
    """The bundled public suffix list with the suffixes of the collection."""
    return _suffixes(collection.network.suffixes)


@lru_cache(maxsize=16)
def _suffixes(extra: tuple[str, ...]) -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list(), extra)
