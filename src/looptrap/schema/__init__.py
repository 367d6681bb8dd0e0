"""Settings: read plain values (TOML, JSON) into typed ones, reporting every mistake at once.

A `Table` lists its `Field`s; each field has a kind (`Text`, `Choice`, `Number`, `Flag`, `Moment`,
`Listing`, `Mapped` or another `Table`). The same list reads a value (`read`), writes it back
(`Table.plain`) and documents it (`entries`). Pure.
"""

from looptrap.schema.kind import (
    INVALID,
    Choice,
    Flag,
    Kind,
    Listing,
    Mapped,
    Moment,
    Number,
    Text,
    from_text,
    within,
)
from looptrap.schema.table import Entry, Field, Table, entries, leaves, read

__all__ = [
    "INVALID",
    "Choice",
    "Entry",
    "Field",
    "Flag",
    "Kind",
    "Listing",
    "Mapped",
    "Moment",
    "Number",
    "Table",
    "Text",
    "entries",
    "from_text",
    "leaves",
    "read",
    "within",
]
