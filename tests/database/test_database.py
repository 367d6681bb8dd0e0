"""Statements: what differs between SQLite and PostgreSQL is replaced, and nothing else."""

import pytest

from looptrap.database.database import postgres_statement, sqlite_statement


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a = ? AND b = :name", "a = ? AND b = :name"),
        ("id = ANY(?)", "id IN (SELECT value FROM json_each(?))"),
        ("id <> ALL(:ids)", "id NOT IN (SELECT value FROM json_each(:ids))"),
        ("least(a, greatest(b, 1))", "min(a, max(b, 1))"),
        ("CAST(floor(time) AS bigint)", "CAST((time) AS bigint)"),
        ("LIMIT ? FOR UPDATE SKIP LOCKED", "LIMIT ? "),
        ("total(x)", "total(x)"),
        ("what = 'least(a)' AND b = ?", "what = 'least(a)' AND b = ?"),
    ],
)
def test_sqlite_gets(statement, expected):
    assert sqlite_statement(statement) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a = ? AND b = :name", "a = %s AND b = %(name)s"),
        ("start % 3600 <> 0", "start %% 3600 <> 0"),
        ("a::text = :a", "a::text = %(a)s"),
        ("what = 'a:b?' AND b = ?", "what = 'a:b?' AND b = %s"),
        ("id = ANY(:ids)", "id = ANY(%(ids)s)"),
        ("total(x)", "sum(x)"),
        ("instr(a, :q) > 0", "pg_catalog.position(a, %(q)s) > 0"),
        ("FROM letter INDEXED BY letter_due WHERE", "FROM letter  WHERE"),
    ],
)
def test_postgres_gets(statement, expected):
    assert postgres_statement(statement) == expected
