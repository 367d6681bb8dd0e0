"""The demo: a stuck agent is caught, the figures are counted, nothing of the machine takes part."""

import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import PIPE
from urllib.request import urlopen

import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from tests.patience import PATIENCE

from looptrap.cli import demo_run, main
from looptrap.cli.demo import MAX_CALLS
from looptrap.cli.demo_run import DemoRun, open_target, run_agent
from looptrap.testing.stuck_agent import MODEL_PRICE, ListPrice

LOOPTRAP = Path(sys.executable).with_name("looptrap")


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, ["demo", *arguments], env=env)


async def performed(act: DemoRun) -> DemoRun:
    async with open_target(is_guarded=act.is_guarded) as target:
        async for _ in run_agent(act, target):
            pass
    return act


async def test_without_looptrap_every_call_reaches_the_provider():
    act = await performed(DemoRun(is_guarded=False, limit=20))
    assert act.answered == len(act.steps) == 20
    assert act.refusal is None


async def test_with_looptrap_the_eighth_call_of_the_loop_is_refused():
    act = await performed(DemoRun(is_guarded=True, limit=20))
    # The context window keeps two rounds; Looptrap remembers those that were dropped.
    assert act.answered == 7
    assert [step.verdict for step in act.steps] == ["allow"] * 5 + ["warn"] * 2 + ["block"]
    refusal = act.refusal
    assert refusal is not None
    assert (refusal.status, refusal.code) == (429, "recursive_loop_detected")
    assert "failed the same way, or asked the same, 7 times" in refusal.message


@pytest.mark.parametrize("is_guarded", [False, True], ids=["without", "with"])
async def test_the_cost_is_that_of_the_tokens_reported(is_guarded):
    act = await performed(DemoRun(is_guarded, limit=12))
    input_tokens = sum(step.input_tokens for step in act.steps)
    output_tokens = sum(step.output_tokens for step in act.steps)
    assert input_tokens > output_tokens > 0
    assert act.cost == pytest.approx(MODEL_PRICE.of(input_tokens, output_tokens))


def test_a_price_is_dollars_a_million_tokens():
    price = ListPrice(model="m", input=2.0, output=10.0, listed="May")
    assert price.of(1_000_000, 500_000) == 7.0
    assert "m, May: $2.00 a million input tokens, $10.00 output" in str(price)


def test_a_pipe_gets_plain_lines_within_20_seconds_and_the_figures_add_up():
    shown = subprocess.run(
        [LOOPTRAP, "demo"], capture_output=True, text=True, timeout=20, check=False
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    spent, instead, saved = map(
        float, re.findall(r"Spent \$(\S+) instead of \$(\S+): \$(\S+) saved", shown.stdout)[0]
    )
    assert spent + saved == pytest.approx(instead, abs=0.011)
    assert f"call   60  read_log(pump=5) failed: the log server timed out  ${instead:.2f}" in (
        shown.stdout
    )
    assert "Caught on call 8: 7 calls reached the provider, not 60." in shown.stdout
    assert str(MODEL_PRICE.listed) in shown.stdout


def test_plain_is_what_a_pipe_gets():
    assert run("--plain").output == run().output


def test_calls_sets_how_long_the_loop_runs():
    shown = run("--calls", "25").output
    assert "after 25 calls" in shown
    assert "7 calls reached the provider, not 25." in shown


def test_too_few_calls_are_no_loop():
    shown = run("--calls", "5")
    assert shown.exit_code == 0
    assert "5 calls are not a loop yet" in shown.stdout


@pytest.mark.parametrize("calls", ["0", "many", str(MAX_CALLS + 1)])
def test_calls_that_make_no_sense_are_a_usage_error(calls):
    shown = run("--calls", calls)
    assert shown.exit_code == 2
    assert "--calls" in shown.stderr


def test_taken_ports_do_not_matter():
    with ExitStack() as stack:
        for port in (4100, 4101):
            taken = stack.enter_context(socket.socket())
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):  # taken by somebody else: just as good
                taken.bind(("127.0.0.1", port))
                taken.listen()
        assert "Caught on call 8" in run("--calls", "10").output


def test_the_set_up_of_the_machine_takes_no_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["keys", "add", "ci"]).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before
    proxy = "http://127.0.0.1:9"
    shown = run(
        "--calls", "10",
        LOOP_GUARD_MAX_HITS="0", LOOPTRAP_PRESET="zelyx", HTTP_PROXY=proxy, http_proxy=proxy,
    )  # fmt: skip
    assert "Caught on call 8" in shown.output
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


async def test_a_terminal_gets_a_live_picture(monkeypatch):
    monkeypatch.setattr(demo_run, "LIVE_DURATION_S", 0.0)
    monkeypatch.setattr(demo_run, "LIVE_PAUSE_S", 0.0)
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=80, color_system="standard")
    await demo_run.play(12, demo_run.LiveScreen(console))
    assert "\x1b[" in written.getvalue()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue())
    assert len(re.findall(r"╰─.*spent", shown)) >= 12 + 8  # one picture a call
    assert "Caught on call 8: 7 calls reached the provider, not 12." in shown


@pytest.mark.parametrize(
    ("plain", "is_terminal", "kind"),
    [
        pytest.param(False, True, demo_run.LiveScreen, id="a terminal"),
        pytest.param(True, True, demo_run.Screen, id="a terminal, asked to be plain"),
        pytest.param(False, False, demo_run.Screen, id="a pipe"),
    ],
)
def test_the_live_picture_is_for_terminals_that_want_it(monkeypatch, plain, is_terminal, kind):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(Console, "is_terminal", is_terminal)
    assert type(demo_run.choose_screen(plain)) is kind


@pytest.fixture
def dashboard():
    """The demo with its dashboard, and what it has printed until it waits for the user."""
    command = [LOOPTRAP, "demo", "--dashboard"]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True) as process:
        try:
            lines = [""]
            while "Ctrl-C" not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], process.stderr.read()
            yield process, "".join(lines)
        finally:
            process.kill()


def test_a_dashboard_shows_the_loop_until_the_user_ends_it(dashboard):
    process, shown = dashboard
    assert "call    8  block" in shown
    url = re.findall(r"Its dashboard: (http://127\.0\.0\.1:\d+/)", shown)[0]
    assert b"<title>Looptrap</title>" in fetched(url)
    deadline = time.monotonic() + PATIENCE
    while (found := json.loads(fetched(f"{url}api/v1/incidents"))["incidents"]) == []:
        assert time.monotonic() < deadline
    assert [one["tool"] for one in found] == ["read_log"]
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert process.stderr.read() == ""


def fetched(url):
    with urlopen(url, timeout=PATIENCE) as answer:
        return answer.read()
