"""Statements are written once: what differs between SQLite and PostgreSQL is replaced here.

They are in the SQL that both know, and in these words:

`?`, `:name`               a value, by position or by name
`= ANY(?)`, `<> ALL(?)`    one, or none, of the values in a list
`least`, `greatest`        of several values; NULL must not be among them
`total(x)`                 the sum, which a number too large does not break
`floor(x)`                 of a number that is not negative
`instr(x, y)`              the place of y in x, text or bytes; 0 if it is not there
`INDEXED BY x`             the index to use; PostgreSQL chooses by itself
`FOR UPDATE SKIP LOCKED`   leave out what another transaction is about to change
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

MAX_STATEMENTS = 1_000
"""Translated statements that are remembered."""

_VALUE = r"(\?|:[a-z_0-9]+)"

_TO_SQLITE: Mapping[str, str] = {
    rf"= ANY\({_VALUE}\)": r"IN (SELECT value FROM json_each(\1))",
    rf"<> ALL\({_VALUE}\)": r"NOT IN (SELECT value FROM json_each(\1))",
    r"\bleast\(": "min(",
    r"\bgreatest\(": "max(",
    r"\bfloor\(": "(",
    r"FOR UPDATE SKIP LOCKED": "",
}

_TO_POSTGRES: Mapping[str, str] = {
    r"\?": "%s",
    r"(?<!:):([a-z_][a-z_0-9]*)": r"%(\1)s",
    r"\btotal\(": "sum(",
    r"\binstr\(": "pg_catalog.position(",
    r"INDEXED BY \w+": "",
}

_QUOTED = re.compile(r"('[^']*')")


def _translator(replacements: Mapping[str, str]) -> Callable[[str], str]:
    patterns = [(re.compile(pattern), into) for pattern, into in replacements.items()]

    def replaced(text: str) -> str:
        for pattern, into in patterns:
            text = pattern.sub(into, text)
        return text

    @lru_cache(MAX_STATEMENTS)
    def translate(statement: str) -> str:
        pieces = _QUOTED.split(statement)
        pieces[::2] = map(replaced, pieces[::2])
        return "".join(pieces)

    return translate


sqlite_statement = _translator(_TO_SQLITE)
"""Return a statement as SQLite knows it."""

_postgres_statement = _translator(_TO_POSTGRES)


def postgres_statement(statement: str) -> str:
    """Return a statement as psycopg sends it to PostgreSQL."""
    return _postgres_statement(statement.replace("%", "%%"))
