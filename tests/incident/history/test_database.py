"""The file: who can read it, what is made of an older one, and what is refused."""

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest
from tests.incident.history.keeping import NOON, ids, incident, opened_history, outgoing

from looptrap.database import sqlite_schema as schema
from looptrap.errors import ConfigError, DatabaseError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def problem(path):
    with pytest.raises(ConfigError) as caught:
        opened_history(path)
    (found,) = caught.value.problems
    assert found.place == "history"
    assert str(path) in found.message
    return found.message


def files(tmp_path):
    return sorted(one.name for one in tmp_path.iterdir())


# Who can read it


def test_only_its_owner_can_read_it(keep, tmp_path):
    old = os.umask(0)
    try:
        keep().put([incident(1)])
    finally:
        os.umask(old)
    assert files(tmp_path) == ["looptrap.db", "looptrap.db-shm", "looptrap.db-wal"]
    assert {mode(one) for one in tmp_path.iterdir()} == {0o600}


def test_one_that_others_can_read_is_closed_to_them(keep, tmp_path):
    keep().put([incident(1)])
    for one in tmp_path.iterdir():
        one.chmod(0o644)
    keep()
    assert {mode(one) for one in tmp_path.iterdir()} == {0o600}


def test_folders_are_made(keep, tmp_path):
    keep(tmp_path / "var" / "lib" / "history.db")
    assert mode(tmp_path / "var" / "lib") == 0o700


def test_in_memory_nothing_is_left_anywhere_and_nothing_shared(keep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one, two = keep(""), keep("")
    one.put([incident(1)])
    assert two.incidents().items == []
    assert one.id != two.id
    assert files(tmp_path) == []


def test_a_path_is_only_a_path(keep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keep(":memory:")
    assert ":memory:" in files(tmp_path)


# Versions


def test_an_empty_file_is_a_new_history(keep, tmp_path):
    (tmp_path / "looptrap.db").touch()
    keep().put([incident(1)])
    assert ids(keep().incidents().items) == ["00000001"]


def test_a_file_of_an_older_version_gets_what_it_lacks(keep, tmp_path, monkeypatch):
    old = keep()
    old.put([incident(1)], outgoing(1))
    old.close()
    more = ("ALTER TABLE part ADD COLUMN mood TEXT", "CREATE TABLE moods (what TEXT)")
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, more])
    new = keep()
    assert new.id == old.id
    assert ids(new.incidents().items) == ["00000001"]
    with new._database.read() as connection:
        assert connection.execute("SELECT mood FROM part").fetchall() == [(None,)]
        assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)


def test_a_migration_is_all_or_nothing(keep, tmp_path, monkeypatch):
    keep().close()
    bad = ("CREATE TABLE moods (what TEXT)", "CREATE TABLE part (id TEXT)")
    with monkeypatch.context() as patched:
        patched.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, bad])
        assert "already exists" in problem(tmp_path / "looptrap.db")
    with keep()._database.read() as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(schema.MIGRATIONS),)
        assert not connection.execute("SELECT 1 FROM sqlite_master WHERE name='moods'").fetchall()


def test_a_file_of_a_later_version_is_refused_and_left_alone(keep, tmp_path):
    path = tmp_path / "looptrap.db"
    keep().close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    assert "is of version 99, this Looptrap knows versions up to " in problem(path)
    assert path.read_bytes() == before


# What is no history


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    assert "database of another program" in problem(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("milk, bread and a long line about everything else\n" * 50)
    assert "is not a SQLite database" in problem(path)
    assert path.read_text().startswith("milk")


def test_a_damaged_file_is_refused(keep, tmp_path):
    history = keep()
    history.put([incident(n) for n in range(100)])
    history.close()
    path = tmp_path / "looptrap.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xff" * 3996 + whole[4096:])
    assert "is damaged" in problem(path)


@pytest.mark.parametrize("place", ["folder", "under a file", "nowhere to write"])
def test_what_cannot_be_a_file_is_refused(tmp_path, place):
    (tmp_path / "file").touch()
    path = {
        "folder": tmp_path,
        "under a file": tmp_path / "file" / "looptrap.db",
        "nowhere to write": "/proc/looptrap.db",
    }[place]
    assert "cannot be used" in problem(path)


NOBODY = 65534

READ_ONLY = """
    import os, sys
    from tests.incident.history.keeping import opened_history
    from looptrap.errors import ConfigError
    if os.getuid() == 0:
        os.setuid(int(sys.argv[2]))
    try:
        opened_history(sys.argv[1])
    except ConfigError as error:
        print(error)
"""


@pytest.fixture
def passable():
    """Return a folder that other users can get into, as they cannot into pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("whose", ["root's", "one's own"])
@pytest.mark.parametrize("is_folder_too", [False, True], ids=["file", "file and folder"])
def test_a_file_that_must_not_be_written_is_refused(keep, passable, is_folder_too, whose):
    folder = passable / "kept"
    path = folder / "looptrap.db"
    history = keep(path)
    history.put([incident(1)])
    history.close()
    folder.chmod(0o555 if is_folder_too else 0o777)
    path.chmod(0o444)
    if whose == "one's own" and os.getuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(READ_ONLY), str(path), str(NOBODY)],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    folder.chmod(0o700)
    assert done.stdout.startswith(f"history: {path}: cannot be ")


def test_what_is_closed_can_be_asked_nothing(keep):
    history = keep()
    history.close()
    with pytest.raises(DatabaseError):
        history.incidents()
    with pytest.raises(DatabaseError):
        history.put([incident(1)])


# A file that goes


def test_a_deleted_file_is_made_anew_under_the_same_id(keep, tmp_path):
    one, two = keep(), keep()
    history_id = one.id
    one.put([incident(1)])
    (tmp_path / "looptrap.db").unlink()
    two.put([incident(2)])
    one.put([incident(3)])
    assert ids(one.incidents().items) == ids(two.incidents().items) == ["00000003", "00000002"]
    assert one.id == two.id == history_id
    one.close()
    two.close()
    again = keep()
    assert again.id == history_id
    assert ids(again.incidents().items) == ["00000003", "00000002"]


def test_a_replaced_file_is_used_from_then_on(keep, tmp_path):
    here, there = keep(), keep(tmp_path / "other.db")
    here.put([incident(1)])
    there.put([incident(9, last=NOON)])
    there.close()
    (tmp_path / "other.db").rename(tmp_path / "looptrap.db")
    here.put([incident(10)])
    assert here.id == there.id
    assert ids(here.incidents().items) == ["0000000a", "00000009"]
    with here._database.read() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
