"""`looptrap history move`, and what other commands say of a history in PostgreSQL."""

import pytest
from click.testing import CliRunner
from tests.database.postgres_server import postgres_server
from tests.incident.history.keeping import NOON, incident, opened_history, outgoing
from tests.incident.history.test_usage import SOME, spent

from looptrap.cli import main
from looptrap.incident.history import move as moving
from looptrap.incident.model import Annotation
from looptrap.usage.call_log import CallFilter, CallRow

AWAY = "postgresql://ann:secret@127.0.0.1:1/x"


def run(*arguments, env=None):
    result = CliRunner().invoke(main, list(map(str, arguments)), env=env or {})
    assert "secret" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Mistakes


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("mysql://ann:secret@db/x", "LOOPTRAP_HISTORY: mysql:// is no place for a history"),
        ("postgresql:x", "LOOPTRAP_HISTORY: is not a URL of PostgreSQL"),
        ("postgresql://ann:sec#secret@db/x", "LOOPTRAP_HISTORY: is not a URL of PostgreSQL"),
    ],
)
@pytest.mark.parametrize("command", ["check", "doctor", "serve"])
def test_a_wrong_place_is_a_mistake_and_makes_nothing(here, command, place, message):
    result = run(command, env={"LOOPTRAP_HISTORY": place})
    assert message in result.output
    assert result.exit_code in (1, 2)
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "doctor", "serve"])
def test_without_the_extra_there_is_one_line(here, command, monkeypatch):
    monkeypatch.setattr("looptrap.database.postgres.has_driver", lambda: False)
    result = run(command, env={"LOOPTRAP_HISTORY": AWAY})
    needs = "history: postgresql://ann:***@127.0.0.1:1/x: needs the extra: pip install"
    assert needs in result.output


def test_one_that_is_away_is_a_warning_of_check_and_a_problem_of_doctor(here):
    checked = run("check", env={"LOOPTRAP_HISTORY": AWAY})
    assert checked.exit_code == 0
    assert "history: postgresql://ann:***@127.0.0.1:1/x cannot be reached" in checked.output
    shown = run("check", "--effective", env={"LOOPTRAP_HISTORY": AWAY})
    assert "postgresql://ann:***@127.0.0.1:1/x" in shown.output
    examined = run("doctor", env={"LOOPTRAP_HISTORY": AWAY})
    assert examined.exit_code == 1
    assert "Connection refused" in examined.output


def test_a_backup_is_made_with_pg_dump(here):
    result = run("backup", "copy.db", env={"LOOPTRAP_HISTORY": AWAY})
    assert (result.exit_code, result.output) == (
        2,
        "history: postgresql://ann:***@127.0.0.1:1/x is a PostgreSQL: back it up with pg_dump\n",
    )


@pytest.mark.slow
def test_check_and_doctor_look_and_change_nothing(here, find_part):
    find_part(["initdb", "/usr/lib/postgresql/*/bin/initdb"], "postgresql")
    with postgres_server(password="secret") as server:
        env = {"LOOPTRAP_HISTORY": server.url()}
        assert run("check", env=env).exit_code == 0
        assert "its tables are made at the start" in run("doctor", env=env).output
        assert server.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [
            (0,)
        ]
        opened_history(server.url()).close()
        assert "version 2" in run("doctor", env=env).output
        wrong = {"LOOPTRAP_HISTORY": server.url(password="secret2")}
        for command in ("check", "doctor", "serve"):
            result = run(command, env=wrong)
            assert "the password is wrong" in result.output
            assert result.exit_code in (1, 2)
        server.execute("ALTER TABLE call_log DROP COLUMN cost")
        for command in ("check", "serve"):
            assert run(command, env=env).output.endswith(
                "lacks call_log.cost: its schema was changed by hand\n"
            )


# Move


CALL = CallRow(
    time=NOON, weight=2, caller="ann", project="", session="s", agent="", model="m",
    provider="openai", dialect="", status=200, verdict="allow", shadow="", reason="", policy="",
    rule="", input_tokens=5, output_tokens=2, cached_tokens=0, is_estimated=True, cost=7,
    latency=0.5, first_byte=None, is_stream=False, is_cut_off=False, request_id="r",
)  # fmt: skip


@pytest.fixture
def file(here):
    path = here / "looptrap.db"
    history = opened_history(path)
    history.put(
        [incident(n, closed=NOON + 9 if n % 2 else None) for n in range(30)],
        outgoing(*range(10)),
        spent(*SOME),
        [Annotation(id="a", incident="00000001", time=NOON, by="ann", kind="note", text="x")],
        [CALL._replace(time=NOON + n) for n in range(25)],
    )
    history.audit.add("release", "x", by="ann", source="here", before={"a": 1})
    history.close()
    return path


@pytest.fixture
def url(postgres):
    return postgres.new_schema()


def same(file, url):
    one, two = opened_history(file), opened_history(url)
    try:
        return [
            (
                history.incidents(limit=100).items,
                history.annotations(["00000001"]),
                [(each.event, each.channel) for each in history.outbox.deliveries().items],
                history.usage.totals(0, 2 * NOON),
                history.usage.sessions(0),
                [(each.what, each.before) for each in history.audit.entries().items],
                [each.row for each in history.calls.page(moving_filter(), 100).items],
            )
            for history in (one, two)
        ]
    finally:
        one.close()
        two.close()


def moving_filter():

    return CallFilter()


@pytest.mark.slow
def test_everything_is_moved_and_checked(file, url):
    result = run("history", "move", file, url)
    assert result.exit_code == 0, result.output
    assert "part: 30 rows, checked" in result.output
    assert "spending: 3 rows, $7.00, checked" in result.output
    before, after = same(file, url)
    assert before == after
    again = run("history", "move", file, url)
    assert again.exit_code == 2
    assert "was moved here already" in again.output


@pytest.mark.slow
@pytest.mark.parametrize("ended_after", [0, 1, 4, 7, 12, 20])
def test_an_interrupted_move_goes_on(file, url, ended_after, monkeypatch):
    monkeypatch.setattr(moving, "MOVED_AT_A_TIME", 4)
    with monkeypatch.context() as patched:
        store, left = moving._Move._store, [ended_after]

        def fail(self, writing, state):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            store(self, writing, state)

        patched.setattr(moving._Move, "_store", fail)
        run("history", "move", file, url)
    assert run("history", "move", file, url).exit_code == 0
    before, after = same(file, url)
    assert before == after


@pytest.mark.slow
def test_a_target_with_rows_of_the_same_history_is_refused(file, url):
    source, target = opened_history(file), opened_history(url)
    target.put([incident(1, instance=f"{source.id}.x")])
    source.close()
    target.close()
    result = run("history", "move", file, url)
    assert result.exit_code == 2
    assert "has rows of" in result.output


@pytest.mark.slow
def test_a_history_that_is_written_meanwhile_is_found_out(file, url, monkeypatch):
    monkeypatch.setattr(moving, "MOVED_AT_A_TIME", 4)
    with monkeypatch.context() as patched:
        tables = [
            one._replace(kind="unknown") if one.name == "call_log" else one for one in moving.TABLES
        ]
        patched.setattr(moving, "TABLES", tables)
        with pytest.raises(AttributeError, match="unknown"):
            CliRunner().invoke(main, ["history", "move", str(file), url], catch_exceptions=False)
    history = opened_history(file)
    history.put([incident(77)])
    history.close()
    result = run("history", "move", file, url)
    assert result.exit_code == 2
    assert "part has changed since the move began" in result.output


@pytest.mark.parametrize(
    ("file", "url", "message"),
    [
        ("nothing.db", AWAY, "nothing.db: does not exist"),
        ("looptrap.db", "other.db", "is no PostgreSQL"),
    ],
)
def test_what_cannot_be_moved_is_said(here, file, url, message):
    result = run("history", "move", file, url)
    assert result.exit_code == 2
    assert message in result.output
