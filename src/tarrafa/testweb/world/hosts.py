"""Defines a synthetic Web by its seed: hosts, sizes, names and loopback addresses.

Promises: a `World` depends on its arguments alone: the same arguments make the same hosts, pages, links and changes on
any machine. Millions of pages cost nothing until one is requested.
Knows nothing of HTML, HTTP or sockets.

Every host has two URL forms. By name, `http://h0001.br.test/`, for a crawler that sends the connections of `*.test` to
this server; and by address, `http://127.1.0.2:8090/`, for every other client. Each host has its own loopback address,
except that every eighth shares the address of the one before it, on the next port, so that rules per address can be
tested. A page served in one form links only to that form. The number of a host (`no`) counts from 1, as in its name.
"""

import ipaddress
from dataclasses import dataclass
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from tarrafa.errors import ConfigError
from tarrafa.testweb.world.hash_random import apportion, draw, uniform
from tarrafa.testweb.world.prose import Prose, make_prose

EPOCH = 1_735_689_600  # 2025-01-01 00:00 UTC: no page changes before it
PAGES_EXPONENT = 0.9  # of the power law of pages per host
TAIL_SHARE = 10  # one page in this many is special: private, orphaned, behind something (see `resources`)
HOST_FANOUT = 8  # a host's root links to the roots of this many others, so that all hosts are connected
SHARED_EVERY = 8
HOSTS_MAX = 1_000_000
CACHED_HOSTS = 1 << 16

_DOMAINS = ("br", "pt", "com", "br", "br")  # 60 %, 20 %, 20 %
_LANGUAGES = {"br": "pt-BR", "pt": "pt-PT", "com": "en"}
_ADDRESSES_PER_BLOCK = 254  # the last number of an address runs from 1 to 254

_PURPOSE_HOST = 1
_PURPOSE_SIZE = 2
_PURPOSE_FAME = 3


class UrlForm(msgspec.Struct, frozen=True):
    """How URLs are written: by name when `port` is 0, else by loopback address with this as the first port."""

    port: int = 0


BY_NAME = UrlForm()


class PathWords(msgspec.Struct, frozen=True):
    """The words that a host's paths are made of, in canonical (percent-encoded) spelling."""

    sections: tuple[tuple[str, str], ...]  # (path segment, label)
    private: str
    public: str
    go: str
    old: str
    files: str
    lost: str
    hop: str
    loop: str
    view: str
    print: str


PT_PATH_WORDS = PathWords(
    (("noticias", "Notícias"), ("artigos", "Artigos"), ("servi%C3%A7os", "Serviços"), ("eventos", "Eventos"),
     ("pessoas", "Pessoas"), ("produtos", "Produtos"), ("mem%C3%B3ria", "Memória")),
    "privado", "publico", "ir", "antigo", "arquivos", "sumiu", "salto", "volta", "ver", "imprimir",
)  # fmt: skip
EN_PATH_WORDS = PathWords(
    (("news", "News"), ("articles", "Articles"), ("caf%C3%A9", "Café"), ("events", "Events"), ("people", "People"),
     ("products", "Products"), ("history", "History")),
    "private", "public", "go", "old", "files", "lost", "hop", "round", "view", "print",
)  # fmt: skip


class HostRobots(msgspec.Struct, frozen=True):
    """The rules of a host's robots.txt: see `render.robots_sitemaps`."""

    present: bool = True
    private: bool = False  # the private directory is disallowed, its public part allowed again
    prints: bool = False  # print versions are disallowed, by a wildcard
    archives: bool = False  # .zip is disallowed, by a wildcard and an end mark
    crawl_delay_s: float = 0.0  # 0: none


ROBOTS_VARIANTS = (
    HostRobots(present=False),
    HostRobots(),
    HostRobots(private=True),
    HostRobots(private=True),
    HostRobots(private=True),
    HostRobots(private=True, prints=True),
    HostRobots(private=True, prints=True),
    HostRobots(private=True, archives=True),
)


class WebHost(msgspec.Struct, frozen=True):
    """The fixed properties of one host."""

    no: int
    name: str
    language: str  # "pt" or "en": of the text
    locale: str  # as in <html lang>
    pages: int  # HTML pages; n = 0 is the root
    open: int  # pages below this number form the tree of links; the rest, the tail, are special
    branching: int  # of that tree
    sections: int
    rotation: int  # which special page comes first in the tail
    robots: HostRobots
    validators: bool  # sends ETag and Last-Modified
    hops: bool  # has a chain of redirects
    loop: bool  # has a loop of redirects
    pace: float  # its latency, relative to the server's mean: 0.5 to 1.5
    path_words: PathWords
    prose: Prose


@dataclass(frozen=True, eq=False)  # equal only to itself: hashing it must cost nothing
class World:
    """A synthetic Web. `changes` multiplies every page's change rate; robots.txt asks for `crawl_delay_s` on about
    `crawl_delay_share` of the hosts; `hostile` adds the hosts of `testweb.hostile`.
    """

    seed: int = 1
    hosts: int = 40
    pages: int = 2000
    crawl_delay_s: float = 1.0
    crawl_delay_share: float = 0.0
    changes: float = 1.0
    epoch: int = EPOCH
    hostile: bool = False

    def __post_init__(self) -> None:
        limits = (
            (0 <= self.seed < 1 << 63, f"seed must be 0 or more and below 2^63, got {self.seed}"),
            (1 <= self.hosts <= HOSTS_MAX, f"hosts must be 1 to {HOSTS_MAX}, got {self.hosts}"),
            (self.pages >= self.hosts, f"pages must be at least hosts ({self.hosts}), got {self.pages}"),
            (0 <= self.crawl_delay_share <= 1, f"crawl_delay_share must be 0 to 1, got {self.crawl_delay_share}"),
            (self.crawl_delay_s >= 0, f"crawl_delay_s must be 0 or more, got {self.crawl_delay_s}"),
            (self.changes >= 0, f"changes must be 0 or more, got {self.changes}"),
        )
        for holds, message in limits:
            if not holds:
                raise ConfigError(f"synthetic web: {message}")

    @cached_property
    def _sizes(self) -> list[int]:
        """Pages of each host, by number - 1: a power law, in the seed's order."""
        sizes = apportion(self.pages, self.hosts, PAGES_EXPONENT)
        order = np.argsort(uniform(self.seed, _PURPOSE_SIZE, self.hosts), kind="stable")
        dealt: list[int] = sizes[order].tolist()
        return dealt

    @cached_property
    def famous(self) -> list[int]:
        """Numbers of hosts, the most linked first: large hosts tend to be popular, with chance mixed in."""
        fame = np.log(self._sizes) + 3.0 * uniform(self.seed, _PURPOSE_FAME, self.hosts)
        ranked: list[int] = (np.argsort(-fame, kind="stable") + 1).tolist()
        return ranked

    def host(self, no: int) -> WebHost:
        return _host(self, no)

    def names(self) -> list[str]:
        return [host_name(no) for no in range(1, self.hosts + 1)]

    def authority(self, no: int, form: UrlForm = BY_NAME) -> str:
        """The authority part of the host's URLs, also used in the Host header."""
        if not form.port:
            return _host(self, no).name
        address, shift = endpoint(no)
        return f"{address}:{form.port + shift}"

    def root(self, no: int, form: UrlForm = BY_NAME) -> str:
        return f"http://{self.authority(no, form)}/"

    def roots(self, form: UrlForm = BY_NAME) -> list[str]:
        return [self.root(no, form) for no in range(1, self.hosts + 1)]

    def find(self, authority: str, port: int) -> tuple[int, UrlForm] | None:
        """The host and URL form of a Host header, on a server whose first port is `port`."""
        name, _, suffix = authority.lower().partition(":")
        no = host_number(name)
        form = BY_NAME
        if no is None:
            form = UrlForm(port)
            no = _host_number_at(name, (int(suffix) if suffix.isdecimal() else 80) - port)
        return (no, form) if no is not None and no <= self.hosts else None


def host_name(no: int) -> str:
    return f"h{no:04d}.{_DOMAINS[(no - 1) % len(_DOMAINS)]}.test"


def host_number(name: str) -> int | None:
    """The inverse of `host_name`, for names of any world."""
    digits = name[1:].partition(".")[0]
    if name[:1] != "h" or not (digits.isascii() and digits.isdecimal()) or int(digits) < 1:
        return None
    return int(digits) if host_name(int(digits)) == name else None


def endpoint(no: int) -> tuple[str, int]:
    """A host's loopback address, and its port relative to the first one."""
    shift = 1 if no % SHARED_EVERY == 0 else 0
    rest, last = divmod(no - shift, _ADDRESSES_PER_BLOCK)
    return f"127.{1 + rest // 256}.{rest % 256}.{1 + last}", shift


def _host_number_at(address: str, shift: int) -> int | None:
    """The inverse of `endpoint`."""
    try:
        _, second, third, last = ipaddress.IPv4Address(address).packed
    except ValueError:
        return None
    no = ((second - 1) * 256 + third) * _ADDRESSES_PER_BLOCK + last - 1 + shift
    return no if no >= 1 and endpoint(no) == (address, shift) else None


@lru_cache(maxsize=CACHED_HOSTS)
def _host(world: World, no: int) -> WebHost:
    bits = draw(world.seed, _PURPOSE_HOST, no)
    domain = _DOMAINS[(no - 1) % len(_DOMAINS)]
    locale = _LANGUAGES[domain]
    pages = world._sizes[no - 1]
    opened = pages - pages // TAIL_SHARE
    sections = min(3 + (bits & 3), opened - 1)
    robots = ROBOTS_VARIANTS[bits >> 7 & 7]
    slow = robots.present and ((bits >> 48) & 0xFFFF) < world.crawl_delay_share * 0x10000
    return WebHost(
        no=no,
        name=host_name(no),
        language=locale[:2],
        locale=locale,
        pages=pages,
        open=opened,
        branching=6 + (bits >> 2 & 7),
        sections=sections,
        rotation=(0, 2, 4, 5)[bits >> 5 & 3],
        robots=msgspec.structs.replace(robots, crawl_delay_s=world.crawl_delay_s) if slow else robots,
        validators=bool(bits >> 10 & 7),
        hops=bits >> 13 & 3 == 0,
        loop=bits >> 15 & 7 == 0,
        pace=0.5 + (bits >> 18 & 0xFF) / 255,
        path_words=PT_PATH_WORDS if domain != "com" else EN_PATH_WORDS,
        prose=make_prose(locale[:2], world.seed),
    )
