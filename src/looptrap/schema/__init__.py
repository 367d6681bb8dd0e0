"""Settings: read plain values (TOML, JSON) into typed ones, reporting every mistake at once.

A class with the decorator `settings` declares each setting once, as an attribute with its type,
default, kind (`Text`, `Choice`, `Number`, `Size`, `Flag`, `Moment`, `Listing`, `Mapped` or another
`Table`), documentation, and whether a change needs a restart. `Table.of` the class reads values
(`read`), writes them back (`Table.plain`) and documents them (`entries`). Pure.
"""

from looptrap.schema.kind import (
    ANY_NAME,
    INVALID,
    VARIABLE,
    Choice,
    Flag,
    Kind,
    Listing,
    Mapped,
    Moment,
    Number,
    Size,
    Text,
    from_text,
    seconds,
    within,
)
from looptrap.schema.table import (
    Entry,
    Field,
    Table,
    entries,
    inline,
    leaves,
    read,
    setting,
    settings,
)

__all__ = [
    "ANY_NAME",
    "INVALID",
    "VARIABLE",
    "Choice",
    "Entry",
    "Field",
    "Flag",
    "Kind",
    "Listing",
    "Mapped",
    "Moment",
    "Number",
    "Size",
    "Table",
    "Text",
    "entries",
    "from_text",
    "inline",
    "leaves",
    "read",
    "seconds",
    "setting",
    "settings",
    "within",
]
