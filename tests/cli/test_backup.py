"""`looptrap backup`: a copy of a history that is in use, complete and checked."""

import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing

import pytest
from click.testing import CliRunner
from tests.cli.operating import operated

from looptrap.cli import main
from looptrap.incident.history import IncidentHistory, backup
from looptrap.incident.model import Incident
from looptrap.incident.setting import IncidentSettings

COMMAND = "from looptrap.cli import main; main()"


def some_incident(number):
    return Incident(
        id=f"inc_{number:06}", instance="here", key=f"k{number}", opened=number, last=number
    )


def opened(path):
    history = IncidentHistory(str(path), IncidentSettings())
    history.open()
    return closing(history)


def numbers(path):
    """Return the numbers of the incidents in a history, as everything that reads one does."""
    with opened(path) as history:
        found, cursor = [], None
        while True:
            page = history.incidents(limit=500, cursor=cursor)
            found += [int(one.id.removeprefix("inc_")) for one in page.items]
            if page.next_cursor is None:
                return sorted(found)
            cursor = page.next_cursor


def run(*arguments):
    return CliRunner().invoke(main, ["backup", *map(str, arguments)])


@pytest.fixture
def history(tmp_path):
    """A history that somebody has open, with a write-ahead log beside it."""
    path = tmp_path / "looptrap.db"
    with opened(path) as one:
        one.put([some_incident(number) for number in range(20)])
        yield path


def test_a_running_gateway_is_copied_with_all_that_it_has_written(tmp_path):
    with operated(tmp_path) as running:
        assert running.ask(9)[-1] == 429
        running.until(lambda out: "identical-conversation" in out, "incidents")
        live = tmp_path / "history.db"
        shutil.copy(live, tmp_path / "plain.db")
        result = run(tmp_path / "copy.db", "--history", live)
        assert result.exit_code == 0, result.output
    with closing(sqlite3.connect(tmp_path / "plain.db")) as plain:
        tables = plain.execute("SELECT count(*) FROM sqlite_master").fetchone()
    assert tables == (0,), "a plain copy would do, so this shows nothing"
    with opened(tmp_path / "copy.db") as copy:
        [one] = copy.incidents().items
        assert (one.rule, one.action) == ("identical-conversation", "block")


def test_a_copy_made_while_others_write_holds_all_that_was_committed_before(tmp_path, history):
    written, over = 20, threading.Event()

    def write():
        nonlocal written
        with opened(history) as one:
            while not over.is_set():
                one.put([some_incident(written)])
                written += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for turn in range(5):
            before = written
            result = run(tmp_path / f"{turn}.db", "--history", history)
            assert result.exit_code == 0, result.output
            found = numbers(tmp_path / f"{turn}.db")
            assert found == list(range(len(found))), "not one state of the history"
            assert len(found) >= before
    finally:
        over.set()
        thread.join()


def test_the_copy_is_one_file_for_its_owner_alone(tmp_path, history):
    result = run(tmp_path / "copies.db", "--history", history)
    assert result.exit_code == 0
    assert "20 incidents and 0 alerts" in result.stdout
    assert "checked" in result.stdout
    beside = [one.name for one in tmp_path.iterdir() if not one.name.startswith("looptrap.db")]
    assert beside == ["copies.db"]
    assert stat.S_IMODE((tmp_path / "copies.db").stat().st_mode) == 0o600


def test_a_restored_copy_goes_on_as_the_history_it_was(tmp_path, history):
    run(tmp_path / "copy.db", "--history", history)
    with opened(history) as before:
        known = before.id
    restored = tmp_path / "elsewhere" / "looptrap.db"
    restored.parent.mkdir()
    shutil.copy(tmp_path / "copy.db", restored)
    with opened(restored) as after:
        assert after.id == known
        after.put([some_incident(20)])
    assert numbers(restored) == list(range(21))


def test_the_history_is_found_by_the_configuration_and_the_environment(
    tmp_path, history, monkeypatch
):
    file = tmp_path / "looptrap.toml"
    file.write_text(f'history = "{history}"\n')
    assert run(tmp_path / "a.db", "--config", file).exit_code == 0
    monkeypatch.setenv("LOOPTRAP_HISTORY", str(history))
    assert run(tmp_path / "b.db").exit_code == 0
    assert numbers(tmp_path / "a.db") == numbers(tmp_path / "b.db") == list(range(20))


def test_an_existing_file_is_replaced_only_by_force(tmp_path, history):
    target = tmp_path / "copy.db"
    target.write_text("precious")
    result = run(target, "--history", history)
    assert (result.exit_code, target.read_text()) == (2, "precious")
    assert f"{target}: exists already; --force replaces it" in result.stderr
    assert run(target, "--history", history, "--force").exit_code == 0
    assert numbers(target) == list(range(20))


def nothing(folder, history):
    return folder / "copy.db", folder / "none.db", "none.db: does not exist"


def folder_as_history(folder, history):
    return folder / "copy.db", folder, "is not a file"


def no_database(folder, history):
    (folder / "text.db").write_text("not a database, however long it may be " * 99)
    return folder / "copy.db", folder / "text.db", "text.db: is not a SQLite database"


def other_program(folder, history):
    with closing(sqlite3.connect(folder / "other.db")) as other, other:
        other.execute("CREATE TABLE mine (x)")
    return folder / "copy.db", folder / "other.db", "other.db: is a database of another program"


def empty(folder, history):
    (folder / "empty.db").touch()
    return folder / "copy.db", folder / "empty.db", "empty.db: is empty: it holds no history"


def onto_itself(folder, history):
    return history, history, "looptrap.db: is the history itself"


def onto_a_folder(folder, history):
    (folder / "copy.db").mkdir()
    return folder / "copy.db", history, "copy.db: is not a file"


def into_nowhere(folder, history):
    return folder / "none" / "copy.db", history, "copy.db: cannot be written: no such file"


def into_a_file(folder, history):
    (folder / "file").touch()
    return folder / "file" / "copy.db", history, "copy.db: cannot be written: not a directory"


def beside_a_log(folder, history):
    (folder / "copy.db-wal").touch()
    return folder / "copy.db", history, "copy.db: is a database in use: copy.db-wal is beside it"


def onto_a_database_in_use(folder, history):
    (folder / "copy.db").touch()
    (folder / "copy.db-wal").touch()
    return folder / "copy.db", history, "copy.db: is a database in use: copy.db-wal is beside it"


@pytest.mark.parametrize(
    "case",
    [
        nothing, folder_as_history, no_database, other_program, empty, onto_itself,
        onto_a_folder, into_nowhere, into_a_file, beside_a_log,
        onto_a_database_in_use,
    ],
    ids=lambda case: case.__name__.replace("_", " "),
)  # fmt: skip
def test_what_cannot_be_copied_is_said_and_leaves_nothing_behind(tmp_path, history, case):
    target, source, says = case(tmp_path, history)
    before = sorted(tmp_path.rglob("*"))
    result = run(target, "--history", source, "--force")
    assert result.exit_code == 2, result.output
    assert says in result.stderr
    assert "Traceback" not in result.output
    assert sorted(tmp_path.rglob("*")) == before


def test_a_history_in_memory_cannot_be_copied(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text('history = ""\n')
    result = run(tmp_path / "copy.db", "--config", file)
    assert result.exit_code == 2
    assert 'history: is "", so there is no file to copy' in result.stderr


def test_a_locked_history_is_said_and_not_waited_for_without_end(tmp_path, history, monkeypatch):
    monkeypatch.setattr(backup, "BUSY_TIMEOUT_S", 0.05)
    alone = tmp_path / "alone.db"
    shutil.copy(history, alone)
    with closing(sqlite3.connect(alone, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        result = run(tmp_path / "copy.db", "--history", alone)
    assert result.exit_code == 2
    assert "alone.db: has been locked by another process" in result.stderr
    assert not (tmp_path / "copy.db").exists()


def test_a_disk_that_takes_no_more_is_said_and_the_old_copy_stays(tmp_path, history):
    target = tmp_path / "copy.db"
    target.write_text("precious")
    # A limit on the size of files stands for a disk that is full.
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "backup", target, "--history", history, "--force"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16 << 10, 16 << 10)),
    )
    assert done.returncode == 2, done.stderr
    assert f"{target}: cannot be written: " in done.stderr
    assert target.read_text() == "precious"
    assert not list(tmp_path.glob(".*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path, history):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    result = run(closed / "copy.db", "--history", history)
    assert result.exit_code == 2
    assert "copy.db: cannot be written: permission denied" in result.stderr


def test_a_damaged_history_is_not_taken_for_a_backup(tmp_path, history):
    run(tmp_path / "good.db", "--history", history)
    damaged = bytearray((tmp_path / "good.db").read_bytes())
    damaged[8192:16384] = b"\xff" * 8192
    (tmp_path / "damaged.db").write_bytes(damaged)
    result = run(tmp_path / "copy.db", "--history", tmp_path / "damaged.db")
    assert result.exit_code == 2, result.output
    assert "damaged" in result.stderr
    assert not (tmp_path / "copy.db").exists()
