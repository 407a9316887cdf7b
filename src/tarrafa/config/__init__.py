"""Collection configuration: the typed form of a collection file, its validation, and its stored form.

Promises: an unknown key, a wrong type or an impossible value is refused with the file, the section, the key and the
allowed values. An accepted collection is complete, and the same object whether it came from TOML or from the frontier.

`sections` defines the sections and keys, with the value types of `units` and `patterns`; `validation` holds the rules,
by the text `formats`; `table_decoder` turns a table into a collection or a list of errors; `collection_file` reads the
file and encodes a collection for the frontier; `redaction` removes the secrets before a collection is shown.
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
