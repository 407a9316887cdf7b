"""What is to be crawled, and how?

One typed object per collection file. Promises: an unknown key, a wrong type or a value that cannot be meant is refused
with the file, the section, the key and what is allowed; what is accepted is complete, the same object whether it came
from TOML or back out of the frontier.

`sections` are the nouns, with `amounts` and `patterns` as their words; `checks` says what cannot be meant, by the
`shapes` of texts; `converting` makes a collection of a table, or says what is wrong; `files` reads and keeps it;
`discretion` says what of it is not for everybody.
"""

from tarrafa.config.amounts import (
    AMOUNT,
    NUMBER_MAX,
    UNITS_B,
    UNITS_S,
    Moment,
    Seconds,
    Size,
    decode_amount,
    duration,
    size,
)
from tarrafa.config.converting import (
    COMPLAINTS_MAX,
    KEY_CHARS_SHOWN,
    Complaint,
    complaint_of,
    convert,
    examine,
    joined,
    plainly,
)
from tarrafa.config.discretion import archived, discreet, without_secrets
from tarrafa.config.files import ROOTS_MAX, decode, encode, listed_roots, read, read_text
from tarrafa.config.patterns import Closest, HostMatcher, url_pattern
from tarrafa.config.sections import (
    Collection,
    Fetch,
    Identity,
    Network,
    Notify,
    Politeness,
    Revisit,
    Schedule,
    Scope,
    Strategy,
    Weights,
)
from tarrafa.config.shapes import CRON_FIELDS, EMAIL, HOST, NAME, name_server

__all__ = [
    "AMOUNT",
    "COMPLAINTS_MAX",
    "CRON_FIELDS",
    "EMAIL",
    "HOST",
    "KEY_CHARS_SHOWN",
    "NAME",
    "NUMBER_MAX",
    "ROOTS_MAX",
    "UNITS_B",
    "UNITS_S",
    "Closest",
    "Collection",
    "Complaint",
    "Fetch",
    "HostMatcher",
    "Identity",
    "Moment",
    "Network",
    "Notify",
    "Politeness",
    "Revisit",
    "Schedule",
    "Scope",
    "Seconds",
    "Size",
    "Strategy",
    "Weights",
    "archived",
    "complaint_of",
    "convert",
    "decode",
    "decode_amount",
    "discreet",
    "duration",
    "encode",
    "examine",
    "joined",
    "listed_roots",
    "name_server",
    "plainly",
    "read",
    "read_text",
    "size",
    "url_pattern",
    "without_secrets",
]
