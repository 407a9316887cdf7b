"""Collection configuration: the typed form of a collection file, its validation, and its stored form.

Promises: an unknown key, a wrong type or an impossible value is refused with the file, the section, the key and the
allowed values. An accepted collection is complete, and the same object whether it came from TOML or from the frontier.

`sections` defines the sections and keys, with the value types of `formats`; `validation` holds the rules.
`crawl/scope/collection_loader` reads a collection file.
"""

from tarrafa.config.sections import Collection
from tarrafa.config.validation import (
    COMPLAINTS_MAX,
    Complaint,
    collection_from_table,
    complaint_from_message,
    decode_collection,
    encode_collection,
    merge_complaints,
    validate_table,
)

__all__ = [
    "COMPLAINTS_MAX",
    "Collection",
    "Complaint",
    "collection_from_table",
    "complaint_from_message",
    "decode_collection",
    "encode_collection",
    "merge_complaints",
    "validate_table",
]
