"""Where a history is: files, URLs of PostgreSQL, mistakes; and no password is ever shown."""

import pytest

from looptrap.database.place import is_postgres, place_problem, shown_place


@pytest.mark.parametrize(
    "place", ["looptrap.db", "", ":memory:", "/var/lib/a:b.db", "folder/with space.db", "C:\\x.db"]
)
def test_a_path_is_a_file(place):
    assert not is_postgres(place)
    assert place_problem(place) == ""
    assert shown_place(place) == place


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://db/looptrap",
        "postgres://ann:secret@db:5432/looptrap",
        "POSTGRESQL://db/looptrap",
        "postgresql:///looptrap?host=/run/postgresql",
        "postgresql://a:secret@one:5432,two:5433/looptrap?target_session_attrs=read-write",
        "postgresql://ann:se%40cret@[::1]:5432/looptrap",
    ],
)
def test_a_url_is_a_database(place):
    assert is_postgres(place)
    assert place_problem(place) == ""
    assert "cret" not in shown_place(place)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mysql://ann:secret@db/x", "mysql:// is no place for a history"),
        ("redis://db", "redis:// is no place for a history"),
        ("sqlite:///looptrap.db", "sqlite:// is no place for a history"),
        ("://x", "is no place for a history"),
        ("r\r\udcf2://x", '"r\\r\\udcf2://" is no place for a history'),
        ("x" * 500 + "://db", 'xxx…" is no place for a history'),
        ("postgresql:looptrap", "is not a URL of PostgreSQL"),
        ("postgresql://ann:se/cret@db/x", "with %40 for @, %2F for /"),
        ("postgresql://ann:se#cret@db/x", "is not a URL of PostgreSQL"),
        ("postgresql://ann:se%cret@db/x", "%25 for %"),
        ("postgresql://ann:secret%@db/x", "%25 for %"),
        ("postgresql://ann:a%00secret@db/x", "is not a URL of PostgreSQL"),
        ("postgresql://db:port/x", "is not a URL of PostgreSQL"),
        ("postgresql://db:99999/x", "is not a URL of PostgreSQL"),
        ("postgresql://d b/x", "is not a URL of PostgreSQL"),
        ("postgresql://db:" + "9" * 5000, "is not a URL of PostgreSQL"),
        ("postgresql://db/\x1b[2J", "is not a URL of PostgreSQL"),
    ],
)
def test_other_places_are_mistakes(place, message):
    problem = place_problem(place)
    assert message in problem
    assert problem.isprintable()
    assert "cret" not in place_problem(place) + shown_place(place)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("postgresql://ann:pw@db/x", "postgresql://ann:***@db/x"),
        ("postgresql://ann@db/x", "postgresql://ann@db/x"),
        ("postgresql://ann:a@b:c@db/x", "postgresql://ann:***@db/x"),
        ("postgresql://db/x?user=a&password=pw", "postgresql://db/x?user=a&password=***"),
        (
            "postgresql://db/x?pasword=pw&sslmode=require&=pw",
            "postgresql://db/x?pasword=***&sslmode=require&=***",
        ),
        ("postgresql://ann:a/b?c@db/x", "postgresql://ann:***@db/x"),
    ],
)
def test_passwords_are_left_out(place, shown):
    assert shown_place(place) == shown
