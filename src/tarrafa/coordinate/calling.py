"""How does a node speak with its coordinator?

Two questions over HTTP: may I join, and here is my beat. Promises: an answer, or one line that says why there is none,
within a few seconds; the token goes to the coordinator and to nobody else, without TLS to no public address (`peer`).
Knows nothing of what a node does. Blocking: to be called from a thread.
"""

from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from tarrafa.coordinate.beats import Beat, Invitation, Joining, Orders, read
from tarrafa.errors import ConfigError, NameTaken, Refused, Unreachable
from tarrafa.fetch.peer import SENTENCE_CHARS_MAX, NoAnswer, NotAsked, Peer, checked
from tarrafa.frontier.token import MAKE_ONE, TOKEN_VARIABLE, Token
from tarrafa.pulse import shown

TIME_MAX_S = 5.0
ANSWER_BYTES_MAX, INVITATION_BYTES_MAX = 64 << 10, 96 << 20  # an invitation holds the secrets of all collections
PATH = "/nodes/v1"
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the coordinator's"

T = TypeVar("T", bound=msgspec.Struct)


class Caller:
    """A node's line to its coordinator."""

    def __init__(self, url: str, token: Token) -> None:
        self.url = checked(url, "--join")
        if not token:
            raise ConfigError(
                f"--join needs the coordinator's token: --token-file FILE, or {TOKEN_VARIABLE}; {MAKE_ONE}"
            )
        self.token = token
        self.local = ""  # the address of ours that the last answer came to
        self._peer = Peer(self.url, token.secret, "application/json", TIME_MAX_S, private=True)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def join(self, who: Joining) -> Invitation:
        return self._ask("/join", who, Invitation, INVITATION_BYTES_MAX)

    def beat(self, beat: Beat) -> Orders:
        return self._ask(f"/{quote(beat.node, safe='')}/beat", beat, Orders)

    def _ask(self, path: str, question: msgspec.Struct, kind: type[T], bytes_max: int = ANSWER_BYTES_MAX) -> T:
        try:
            answer = self._peer.post(f"{PATH}{path}", msgspec.json.encode(question), bytes_max)
        except NotAsked as error:
            raise Refused(f"{self.url}: {error}") from None
        except NoAnswer as error:
            raise Unreachable(f"{self.url}: {error}") from None
        self.local = answer.local or self.local
        code = answer.code
        try:
            if code == 200:
                return read(answer.body, kind)
            sentence = shown(str(msgspec.json.decode(answer.body)["error"]), SENTENCE_CHARS_MAX)
        except (ValueError, msgspec.MsgspecError, TypeError, KeyError):
            raise Unreachable(f"{self.url}: what answers there is no coordinator of Tarrafa (HTTP {code})") from None
        if code == 409:
            raise NameTaken(f"{self.url}: {sentence}")
        if code == 401:
            raise Refused(f"{self.url}: {WRONG_TOKEN}")
        if 400 <= code < 500:
            raise Refused(f"{self.url}: it does not take what we say ({sentence}); are both of the same version?")
        raise Unreachable(f"{self.url}: {sentence}")
