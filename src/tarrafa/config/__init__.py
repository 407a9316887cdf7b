"""Collection configuration: the typed form of a collection file, its validation, and its stored form.

One typed object per collection file. Promises: an unknown key, a wrong type or a value that cannot be meant is
refused with the file, the section, the key and what is allowed; what is accepted is complete, the same object whether
it came from TOML or back out of the frontier.

`sections` are the nouns, with `amounts` and `patterns` as their words; `checks` says what cannot be meant, by the
`shapes` of texts; `converting` makes a collection of a table, or says what is wrong; `files` reads and keeps it;
`discretion` says what of it is not for everybody.
"""

from tarrafa.config.collection_file import (
    ROOTS_MAX,
    decode_collection,
    encode_collection,
    read_collection_file,
    read_user_file,
    roots_with_locations,
)
from tarrafa.config.formats import COLLECTION_NAME, CRON_FIELDS, EMAIL, HOST_PATTERN, parse_name_server
from tarrafa.config.patterns import HostMatcher, HostPatternTable, compile_url_patterns
from tarrafa.config.redaction import redact_collection, redact_for_archive, redact_url
from tarrafa.config.sections import (
    Collection,
    FetchConfig,
    IdentityConfig,
    NetworkConfig,
    NotifyConfig,
    PolitenessConfig,
    RevisitConfig,
    ScheduleConfig,
    ScopeConfig,
    StrategyConfig,
    UrlScoreWeights,
)
from tarrafa.config.table_decoder import (
    COMPLAINTS_MAX,
    KEY_CHARS_SHOWN,
    Complaint,
    collection_from_table,
    complaint_from_message,
    merge_complaints,
    plain_message,
    validate_table,
)
from tarrafa.config.units import (
    BYTES_PER_UNIT,
    NUMBER_MAX,
    QUANTITY,
    SECONDS_PER_UNIT,
    ByteSize,
    LocalDateTime,
    Seconds,
    decode_quantity,
    parse_duration,
    parse_size,
)

__all__ = [
    "BYTES_PER_UNIT",
    "COLLECTION_NAME",
    "COMPLAINTS_MAX",
    "CRON_FIELDS",
    "EMAIL",
    "HOST_PATTERN",
    "KEY_CHARS_SHOWN",
    "NUMBER_MAX",
    "QUANTITY",
    "ROOTS_MAX",
    "SECONDS_PER_UNIT",
    "ByteSize",
    "Collection",
    "Complaint",
    "FetchConfig",
    "HostMatcher",
    "HostPatternTable",
    "IdentityConfig",
    "LocalDateTime",
    "NetworkConfig",
    "NotifyConfig",
    "PolitenessConfig",
    "RevisitConfig",
    "ScheduleConfig",
    "ScopeConfig",
    "Seconds",
    "StrategyConfig",
    "UrlScoreWeights",
    "collection_from_table",
    "compile_url_patterns",
    "complaint_from_message",
    "decode_collection",
    "decode_quantity",
    "encode_collection",
    "merge_complaints",
    "parse_duration",
    "parse_name_server",
    "parse_size",
    "plain_message",
    "read_collection_file",
    "read_user_file",
    "redact_collection",
    "redact_for_archive",
    "redact_url",
    "roots_with_locations",
    "validate_table",
]
