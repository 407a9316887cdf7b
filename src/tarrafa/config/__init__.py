"""Collection configuration: the typed form of a collection file, its validation, and its stored form.

Promises: an unknown key, a wrong type or an impossible value is refused with the file, the section, the key and the
allowed values. An accepted collection is complete, and the same object whether it came from TOML or from the frontier.

`sections` defines the sections and keys, with the value types of `formats` and `patterns`; `validation` holds the
rules; `collection_file` reads and encodes a collection.
"""

from tarrafa.config.collection_file import (
    COMPLAINTS_MAX,
    ROOTS_MAX,
    Complaint,
    collection_from_table,
    complaint_from_message,
    decode_collection,
    encode_collection,
    merge_complaints,
    read_collection_file,
    roots_with_locations,
    validate_table,
)
from tarrafa.config.sections import Collection

__all__ = [
    "COMPLAINTS_MAX",
    "ROOTS_MAX",
    "Collection",
    "Complaint",
    "collection_from_table",
    "complaint_from_message",
    "decode_collection",
    "encode_collection",
    "merge_complaints",
    "read_collection_file",
    "roots_with_locations",
    "validate_table",
]
