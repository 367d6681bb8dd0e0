"""`looptrap run`: the command's status and streams, what is refused, and what is reported."""

import json
import shlex
import signal
import socket
import sqlite3
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner
from tests.cli.operating import operated
from tests.cli.running import RunHere, asking, chat, start
from tests.patience import PATIENCE

from looptrap.cli import main
from looptrap.testing import FakeProvider


@pytest.fixture(scope="module")
def provider():
    with FakeProvider.running() as provider:
        yield provider


@pytest.fixture
def run(tmp_path, monkeypatch, capfd):
    return RunHere(tmp_path, monkeypatch, capfd)


@pytest.fixture
def guarded(provider, run):
    """Run a command before the provider."""
    return lambda *arguments, **env: run("--upstream", provider.url, *arguments, **env)


@pytest.mark.parametrize(
    ("command", "status"),
    [
        pytest.param(["true"], 0, id="success"),
        pytest.param(["sh", "-c", "exit 3"], 3, id="its own status"),
        pytest.param(["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM, id="a signal"),
        pytest.param(["no-such-program"], 127, id="not found"),
        pytest.param(["./data"], 126, id="not executable"),
        pytest.param(["/"], 126, id="a folder"),
    ],
)
def test_the_exit_status_is_that_of_the_command(tmp_path, run, command, status):
    (tmp_path / "data").write_text("no program")
    assert run("--", *command).status == status


def test_a_command_that_cannot_be_started_is_one_clear_line(run):
    ended = run("--quiet", "--", "no-such-program")
    assert ended.said == "looptrap: no-such-program: no such file or directory\n"


def test_standard_streams_are_those_of_the_command(tmp_path):
    process = start(tmp_path, "--", "sh", "-c", "cat; echo oops >&2")
    out, said = process.communicate("through", timeout=PATIENCE)
    assert out == "through"
    first, middle, *report = said.splitlines()
    assert first.startswith("looptrap: guards sh at http://127.0.0.1:")
    assert middle == "oops"
    assert all(line.startswith("looptrap: ") for line in report)


def test_options_after_the_command_are_its_own(guarded):
    assert guarded("echo", "--budget", "many").out == "--budget many\n"


def test_the_report_says_what_was_used_and_where_to_look(guarded, tmp_path):
    ended = guarded("--", *asking(3, chat("Task {number}")))
    assert ended.out == "200 allow\n" * 3
    used, where = ended.said.splitlines()[1:]
    assert used.startswith("looptrap: 3 calls, ")
    assert used.endswith("; no loop")
    assert "$" in used
    kept = "~/.local/state/looptrap/runs.db"
    assert f"more is in {kept}: `looptrap serve --history {kept}` shows it" in where
    assert (tmp_path / ".local/state/looptrap/runs.db").exists()
    assert not list(tmp_path.glob("looptrap*"))  # the folder may be a repository


def test_all_runs_of_a_user_are_in_one_history(guarded, tmp_path):
    for _ in range(2):
        guarded("--", *asking(7))
    with sqlite3.connect(tmp_path / ".local/state/looptrap/runs.db") as history:
        assert history.execute("SELECT count(*) FROM incident").fetchone() == (2,)


@pytest.mark.parametrize(
    ("flags", "env", "kept"),
    [
        pytest.param(["--history", "own.db"], {}, "own.db", id="a flag"),
        pytest.param([], {"LOOPTRAP_HISTORY": "own.db"}, "own.db", id="a variable"),
        pytest.param(["--config", "team.toml"], {}, "team.db", id="a file"),
        pytest.param([], {"XDG_STATE_HOME": "state"}, "state/looptrap/runs.db", id="a folder"),
    ],
)
def test_the_history_of_a_run_can_be_elsewhere(guarded, tmp_path, flags, env, kept):
    (tmp_path / "team.toml").write_text('history = "team.db"\n')
    ended = guarded(*flags, "--", *asking(1), **env)
    assert ended.status == 0
    assert [str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.db")] == [kept]


def test_a_home_that_cannot_be_written_ends_no_run(guarded, tmp_path):
    (tmp_path / ".local").write_text("a file, and no folder")
    ended = guarded("--", *asking(1))
    assert (ended.status, ended.out) == (0, "200 allow\n")
    assert "runs.db cannot be written: nothing is kept of this run" in ended.said


def test_a_command_that_does_not_use_the_gateway_is_reported(guarded):
    last = guarded("--", "true").said.splitlines()[-1]
    assert last.endswith("no call has passed the gateway")


def test_quiet_prints_nothing(guarded):
    assert guarded("--quiet", "--", *asking()).said == ""


@pytest.mark.parametrize(
    ("flags", "last", "line", "status"),
    [
        pytest.param([], "429 block", "1 loop caught: 3 calls refused", 0, id="by default"),
        pytest.param(["--on-loop", "stop"], "200 stop", "3 calls refused", 0, id="stop"),
        pytest.param(["--on-loop", "notify"], "200 warn", "warned, not refused", 0, id="notify"),
        pytest.param(["--exit-code", "9"], "429 block", "3 calls refused", 9, id="a status"),
        pytest.param(
            ["--exit-code", "9", "--on-loop", "notify"], "200 warn", "warned", 0, id="not refused"
        ),
        pytest.param(["--preset", "zelyx"], "200 allow", "no loop", 0, id="another preset"),
    ],
)
def test_a_loop_is_answered_as_asked_for(guarded, flags, last, line, status):
    ended = guarded(*flags, "--", *asking(8))
    assert ended.out.splitlines()[-1] == last
    assert line in ended.said
    assert ended.status == status


@pytest.mark.parametrize(
    ("flags", "prompt", "why"),
    [
        pytest.param([], "Hi", "identical request sent 8 times in a row", id="an error"),
        pytest.param(["--on-loop", "stop"], "Hi", "identical request sent 8 times", id="a message"),
        pytest.param(["--budget", "0.0001"], "Task {number}", "budget run-", id="a budget"),
    ],
)
def test_the_report_says_why_the_latest_call_was_refused(guarded, flags, prompt, why):
    said = guarded(*flags, "--", *asking(8, chat(prompt))).said
    assert f"\nlooptrap: the latest refusal: {why}" in said


def test_a_budget_is_for_all_callers_of_the_run_together(guarded, tmp_path):
    (tmp_path / "prices.toml").write_text("[price_fallback]\ninput = 0\noutput = 1000000")
    body = json.dumps({**json.loads(chat("Task {number}", "made-up")), "max_tokens": 128_000})
    words = shlex.join(asking(2, body))
    flags = ["--config", "prices.toml", "--budget", "5"]
    # Each call costs two dollars, and may cost far more than the budget has.
    ended = guarded(*flags, "--", "sh", "-c", f"KEY=a {words}; KEY=b {words}")
    assert [line.split()[0] for line in ended.out.splitlines()] == ["200", "200", "200", "402"]
    assert "1 call refused by a budget" in ended.said


def test_a_command_that_takes_too_long_is_ended(guarded):
    ended = guarded("--max-hours", "0.0001", "--", "sh", "-c", "sleep 60 & wait")
    assert ended.status == 128 + signal.SIGTERM
    assert "the command was ended after 0 s (--max-hours)" in ended.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_to_the_command(tmp_path, number):
    script = f"trap 'echo got; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    process = start(tmp_path, "--", "sh", "-c", script)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (5, "got\n")
    assert "looptrap: ended after" in said


def test_gateway_keys_of_serve_are_not_asked_for(guarded):
    assert CliRunner().invoke(main, ["keys", "add", "ci"]).exit_code == 0
    assert guarded("--", *asking()).out == "200 allow\n"


def test_the_log_of_the_gateway_waits_for_the_report(guarded, tmp_path):
    (tmp_path / "looptrap.toml").write_text("[gateway]\naccess_log = 'text'")
    ended = guarded("--config", "looptrap.toml", "--", *asking(7))
    assert ended.out == "200 allow\n" * 5 + "429 block\n" * 2
    assert ended.err == ""


def test_the_dashboard_is_started_on_request(guarded):
    script = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).status)"
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    ended = guarded(
        "--admin", address, "--", sys.executable, "-S", "-c", script, f"http://{address}/livez"
    )
    assert ended.out == "200\n"
    assert f"dashboard: http://{address}/" in ended.said


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        pytest.param([], "COMMAND: names no command", id="no command"),
        pytest.param(["--budget", "0", "--", "true"], "--budget: is 0", id="no budget"),
        pytest.param(["--budget", "nan", "--", "true"], "--budget: is", id="no number"),
        pytest.param(["--max-hours", "-1", "--", "true"], "--max-hours: is -1", id="hours"),
        pytest.param(["--exit-code", "256", "--", "true"], "--exit-code: is 256", id="status"),
        pytest.param(["--on-loop", "pray", "--", "true"], "--on-loop: is", id="on-loop"),
        pytest.param(["--preset", "none", "--", "true"], "--preset: ", id="preset"),
        pytest.param(["--upstream", "x", "--", "true"], "--upstream: ", id="upstream"),
        pytest.param(["--config", "gone", "--", "true"], "gone: does not exist", id="no file"),
        pytest.param(["--config", "bad.toml", "--", "true"], "bad.toml: ", id="a bad file"),
        pytest.param(["--history", "/dev/null/x", "--", "true"], "/dev/null/x: ", id="history"),
        pytest.param(["--admin", "taken", "--", "true"], "gateway.admin: ", id="a taken port"),
        pytest.param(["--gateway", "x", "--", "true"], "--gateway: 'x': ", id="no URL"),
        pytest.param(
            ["--gateway", "http://127.0.0.1:9", "--", "true"],
            "--gateway: 127.0.0.1:9 does not answer (connection refused)",
            id="a dead gateway",
        ),
        pytest.param(["--gateway", "provider", "--", "true"], " is not a gateway", id="no gateway"),
        pytest.param(
            ["--gateway", "http://127.0.0.1:9", "--budget", "5", "--", "true"],
            "--budget: means nothing with --gateway",
            id="options of the other kind",
        ),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_status_2(tmp_path, run, provider, arguments, line):
    (tmp_path / "bad.toml").write_text("block_status =")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        values = {"taken": f"127.0.0.1:{taken.getsockname()[1]}", "provider": provider.url}
        ended = run(*(values.get(word, word) for word in arguments))
    assert (ended.status, ended.out) == (2, "")
    assert ended.said.count("\n") == 1, ended.said
    assert line in ended.said


def test_a_variable_that_is_no_url_is_one_clear_line(run):
    ended = run("--", "true", OPENAI_BASE_URL="nowhere")
    assert (ended.status, ended.said.count("\n")) == (2, 1)
    assert ended.said.startswith("OPENAI_BASE_URL: 'nowhere': scheme is ''")


def test_a_running_gateway_is_used_and_reports_what_it_saw(tmp_path, run):
    (tmp_path / "served").mkdir()
    with operated(tmp_path / "served") as gateway:
        flags = ["--gateway", gateway.here.url, "--admin", gateway.admin, "--exit-code", "7"]
        gateway.ask(2, "Before")
        ended = run(*flags, "--", *asking(7))
        assert gateway.here.provider.calls == 2 + 5
    assert ended.out == "200 allow\n" * 5 + "429 block\n" * 2
    assert "looptrap: 7 calls, " in ended.said
    assert "2 calls refused" in ended.said
    assert f"more is at http://{gateway.admin}/" in ended.said
    assert ended.status == 7
    assert not (tmp_path / ".local").exists()


def test_a_running_gateway_without_its_admin_address_still_guards(tmp_path, run):
    (tmp_path / "served").mkdir()
    with operated(tmp_path / "served") as gateway:
        flags = ["--gateway", f"{gateway.here.url}/v1", "--admin", "127.0.0.1:9"]
        ended = run(*flags, "--", *asking(1))
    assert (ended.status, ended.out) == (0, "200 allow\n")
    assert "the admin address of the gateway does not answer" in ended.said


@pytest.mark.parametrize(
    ("variables", "url", "target"),
    [
        pytest.param(
            {"OPENAI_BASE_URL": "/v1"}, "$OPENAI_BASE_URL/chat/completions",
            "/v1/chat/completions", id="the usual path",
        ),
        pytest.param(
            {"OPENAI_API_BASE": "/api/v1"}, "$OPENAI_BASE_URL/responses",
            "/api/v1/responses", id="another path, by another variable",
        ),
        pytest.param(
            {"OPENAI_BASE_URL": ""}, "$OPENAI_BASE_URL/chat/completions",
            "/chat/completions", id="no path",
        ),
        pytest.param(
            {"ANTHROPIC_BASE_URL": "/api/anthropic"}, "$ANTHROPIC_BASE_URL/v1/messages",
            "/api/anthropic/v1/messages", id="Anthropic elsewhere",
        ),
        pytest.param(
            {"ANTHROPIC_BASE_URL": "/api", "OPENAI_BASE_URL": "/api/v1"},
            "$ANTHROPIC_BASE_URL/v1/messages", "/api/v1/messages", id="two with one path",
        ),
        pytest.param(
            {"GOOGLE_GEMINI_BASE_URL": "/g"}, "$GEMINI_API_BASE/models/m:generateContent",
            "/g/v1beta/models/m:generateContent", id="Gemini elsewhere",
        ),
    ],
)  # fmt: skip
def test_a_base_url_of_the_environment_stays_the_provider(run, provider, variables, url, target):
    env = {name: provider.url + path for name, path in variables.items()}
    ended = run("--", *asking(1, url=url), **env)
    assert ended.out == "200 allow\n"
    assert provider.requests[-1].target == target
