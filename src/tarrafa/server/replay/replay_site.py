"""Where archived pages are replayed (`--replay-url`), for which pages of ours, and under which Content-Security-Policy.

Promises: the replay has a host name that is none of the site's, because cookies ignore ports; it is in a secure context
(https, or a loopback name), because browsers run service workers nowhere else; what its policy lets frame it is the
site, and nothing else. A configuration that is less is a `ConfigError` that says what to write. Pure.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from tarrafa.captures.memento_links import ascii_uri
from tarrafa.errors import ConfigError
from tarrafa.i18n import Message, message
from tarrafa.runtime.listen_address import is_loopback_host
from tarrafa.server.replay.wabac_package import FILE_NAME

ARCHIVE = "all"  # the one collection of wabac.js
DEFAULT_PORTS = {"http": 80, "https": 443}
LOOPBACK_NAMES = ("127.0.0.1", "localhost")  # under which a browser finds the site of this machine
# What an archived page may do inside its frame: run scripts, keep its own origin (a service worker serves only that),
# send forms into the archive. No top navigation, no windows, no dialogs, no downloads.
SANDBOX = "allow-scripts allow-same-origin allow-forms"
# An archived page and its parts: everything from the replay host, where the service worker answers; nothing else.
ARCHIVED_PAGE_CSP = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; connect-src 'self' data: blob:; "
    "frame-src 'self' about: data: blob:; worker-src 'self' blob:; object-src 'none'; form-action 'self'; "
    "base-uri 'self'; frame-ancestors 'self' {site}; sandbox {sandbox}"
)
# Beside that policy, for what it does not cover: WebRTC, and connections that a browser opens before it reads a policy
# (Chromium 152 and later; the draft is at wicg.github.io/connection-allowlists).
CONNECTIONS = "(response-origin);redirects=allow;webrtc=block"
# The page that starts the service worker.
START_CSP = "default-src 'none'; script-src 'self'; style-src 'self'; frame-ancestors 'self' {site}"
# The service worker itself: whatever an archived page makes it ask for, it reaches nothing but the replay host.
WORKER_CSP = "default-src 'none'; script-src 'self'; connect-src 'self' blob:"


@dataclass(frozen=True, slots=True)
class ReplaySite:
    """`origin`: of the replay, without a slash; `name`: its host name; `framed_by`: origins of the site."""

    origin: str
    name: str
    framed_by: tuple[str, ...]

    def replayed_uri(self, timestamp: str, url: str) -> str:
        """Where a capture is replayed."""
        return f"{self.origin}/w/{ARCHIVE}/{timestamp}mp_/{ascii_uri(url)}"

    def source_uri(self) -> str:
        """Licence and source of wabac.js."""
        return f"{self.origin}/{FILE_NAME}"

    def archived_page_csp(self) -> str:
        return ARCHIVED_PAGE_CSP.format(site=" ".join(self.framed_by), sandbox=SANDBOX)

    def start_csp(self) -> str:
        return START_CSP.format(site=" ".join(self.framed_by))

    @classmethod
    def parse(cls, text: str, public: str = "") -> "ReplaySite":
        """`--replay-url`, of a site whose public URL is `public`, or which is on this machine."""
        scheme, name, port = _origin("--replay-url", text)
        if is_local_name(name):
            if public:
                raise ConfigError(
                    f"--replay-url {text}: a loopback name leads each reader to a machine of their own; beside "
                    f"--public-url it must be a public https URL"
                )
            if name in LOOPBACK_NAMES:
                raise ConfigError(
                    f"--replay-url {text}: the site itself is found under that name; write another one, such as "
                    f"http://replay.tarrafa.localhost:8080"
                )
            # Names below one name are one site to browsers: these let its frames store data, which service workers
            # need, also where other sites may not.
            parent = name.partition(".")[2]
            names = (parent,) if parent.endswith(".localhost") else LOOPBACK_NAMES
            return cls(_joined(scheme, name, port), name, tuple(_joined(scheme, one, port) for one in names))
        if scheme != "https":
            raise ConfigError(
                f"--replay-url {text}: must begin with https:// (or be a loopback name, such as "
                f"http://replay.localhost:8080): browsers run service workers nowhere else"
            )
        if not public.startswith("https://"):
            raise ConfigError(
                f"--replay-url {text}: needs --public-url https://…, the address of the pages that show the replay"
            )
        own = _origin("--public-url", public)
        if own[1] == name:
            raise ConfigError(
                f"--replay-url {text}: must be another host name than --public-url: archived pages would reach its "
                f"cookies, which ignore ports"
            )
        return cls(_joined(scheme, name, port), name, (_joined(*own),))


@dataclass(frozen=True, slots=True)
class ReplayState:
    """Whether there is a replay: it needs a host name of its own, and wabac.js (`missing`: why that is not there)."""

    site: ReplaySite | None = None
    missing: Message | str = ""

    def why_off(self, own: str) -> Message | str:
        """Why a page of ours at the origin `own` shows no replay; empty: it does."""
        if self.site is None:
            return message("Replay with images and styles is off: “--replay-url” gives it a host name of its own.")
        if self.missing:
            return message("Replay with images and styles is off: {why}.", why=self.missing)
        if own not in self.site.framed_by:
            known = ", ".join(self.site.framed_by)
            return message("Replay with images and styles is off under this address; it is on at {known}.", known=known)
        return ""


NO_REPLAY = ReplayState()


def is_local_name(name: str) -> bool:
    """A name that browsers resolve to this machine without asking (RFC 6761), or a loopback address."""
    return is_loopback_host(name) or name.endswith(".localhost")


def _origin(option: str, text: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(text)
        name, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        name, port, parts = "", None, urlsplit("")
    is_bare = parts.path in ("", "/") or option == "--public-url"
    if parts.scheme not in DEFAULT_PORTS or not name or ":" in name or not is_bare or parts.query or parts.username:
        raise ConfigError(f"{option}: {text[:80]!r}: write scheme, name and port: http://replay.localhost:8080")
    return parts.scheme, name, None if port == DEFAULT_PORTS[parts.scheme] else port


def _joined(scheme: str, name: str, port: int | None) -> str:
    return f"{scheme}://{name}{'' if port is None else f':{port}'}"
