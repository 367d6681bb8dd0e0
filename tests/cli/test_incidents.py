"""`looptrap incidents`: loops are listed, shown and followed through the admin address."""

import asyncio
import csv
import json
import re
import shutil
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.looping import reading
from tests.admin.operating import operating
from tests.cli.operating import operated
from tests.cli.serving import BARE, interruptible, run
from tests.gateway.serving import JSON, chat, until
from tests.incident.alert.receiving import Receiver
from tests.patience import PATIENCE, STORE_TIMEOUT
from tests.store.serving import free_port

from looptrap.cli import main
from looptrap.incident.model import Incident
from looptrap.testing import FakeProvider

LOOPTRAP = Path(sys.executable).with_name("looptrap")

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


@pytest.fixture
def running(tmp_path):
    with operated(tmp_path) as one:
        yield one


def refused(running, text="Again?", **headers):
    """Run into a refusal; return the incident once it is listed with it."""
    assert running.ask(7, text, **headers) == [200] * 5 + [429] * 2
    wanted = lambda out: any(one["refused"] == 2 for one in json.loads(out))  # noqa: E731
    return json.loads(running.until(wanted, "incidents", "--json").stdout)[0]


@pytest.mark.parametrize("command", [["incidents"], ["incidents", "list"]], ids=["short", "long"])
def test_open_incidents_are_listed_with_what_repeats(running, command):
    found = refused(running, **{"X-Looptrap-Session": "run-1"})
    listed = running.run(*command)
    assert listed.exit_code == 0, listed.output
    first, *others = listed.stdout.splitlines()
    assert re.fullmatch(
        rf"{found['id']}  open, block by identical-conversation, (just now|\d+ s ago)", first
    )
    assert others == [
        "  addr:127.0.0.1, run-1, gpt-5.3",
        "  7 hits, 2 refused, less than $0.0001 saved: identical request sent 7 times in a row",
    ]
    assert "\x1b" not in listed.stdout


def test_nothing_is_said_to_be_nothing(running):
    assert running.run("incidents").stdout == "There are no open incidents.\n"
    assert running.run("incidents", "--all").stdout == "There are no incidents.\n"
    narrowed = running.run("incidents", "--caller", "key:ci").stdout
    assert narrowed == "There are no open incidents of that kind.\n"
    assert running.run("incidents", "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "is_listed"),
    [
        ([], True),
        (["--all"], True),
        (["--closed"], False),
        (["--session", "one"], True),
        (["--session", "other"], False),
        (["--rule", "identical-conversation"], True),
        (["--caller", "key:ci"], False),
        (["--project", "red"], False),
        (["--since", "24h"], True),
        (["--since", "2026-01-01"], True),
        (["--since", "2099-01-01T00:00:00Z"], False),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_flags_say_which(running, arguments, is_listed):
    found = refused(running, **{"X-Looptrap-Session": "one"})
    listed = json.loads(running.run("incidents", *arguments, "--json").stdout)
    assert [one["id"] for one in listed] == [found["id"]] * is_listed


def test_more_than_a_page_is_gathered_and_what_is_left_is_said(running):
    base = running.here.app.recorder._clock()
    running.here.app.recorder.history.put(
        Incident(id=f"inc_{n:04}", instance="h.1", key=str(n), opened=base + n, last=base + n,
                 action="block", rule="same")
        for n in range(620)
    )  # fmt: skip
    listed = running.run("incidents", "--json", "--limit", "610")
    ids = [one["id"] for one in json.loads(listed.stdout)]
    assert ids == [f"inc_{n:04}" for n in range(619, 9, -1)]
    assert listed.stderr == "There are more than these 610: see --limit.\n"


def test_names_cannot_disturb_a_terminal(running):
    base = running.here.app.recorder._clock()
    one = Incident(
        id="inc_1", instance="h.1", key="1", opened=base, last=base, action="block", rule="same",
        caller="key:[bold]x[/bold]", model="evil\x1b[2J\r\nmodel :smile:",
    )  # fmt: skip
    running.here.app.recorder.history.put([one])
    listed, shown = running.run("incidents").stdout, running.run("incidents", "show", "inc").stdout
    for text in (listed, shown):
        assert "key:[bold]x[/bold]" in text
        assert r"evil\x1b[2J\r\nmodel :smile:" in text
        assert "\x1b" not in text
    assert len(listed.splitlines()) == 3


def test_one_is_shown_with_all_that_is_known(running):
    found = refused(running)
    shown = running.run("incidents", "show", found["id"][:12]).stdout
    assert shown.startswith(
        f"Incident {found['id']} is open: block by identical-conversation\n"
        "  caller     addr:127.0.0.1\n"
    )
    assert re.search(rf"\n  opened     {TIME}, (just now|\d+ s ago)\n", shown)
    assert re.search(r"\n  calls      \d that a rule acted on, 2 of them refused\n", shown)
    assert re.search(r"\nSteps\n(.*\n)*?  .* UTC  block by identical-conversation at 6\n", shown)
    assert shown.endswith(
        f"Refused lately\n  {found['fingerprint']}\n"
        f"To let these calls pass: looptrap release --incident {found['id']}\n"
    )
    assert json.loads(running.run("incidents", "show", found["id"], "--json").stdout)["steps"]


def test_one_in_shadow_mode_says_that_nothing_was_done(tmp_path):
    toml = """
    [[policies]]
    name = "p"
    mode = "shadow"
      [[policies.rules]]
      name = "same"
      watch = "conversation"
      threshold = 2
    """
    with operated(tmp_path, toml) as running:
        assert running.ask(3) == [200] * 3
        listed = running.until(lambda out: "same" in out, "incidents").stdout
        assert "would block (shadow)" in listed
        [found] = json.loads(running.run("incidents", "--json").stdout)
        shown = running.run("incidents", "show", found["id"]).stdout
        assert re.search(r"\nSteps\n  .* UTC  would block by same at 2\n", shown)
        assert "that a rule would have acted on, 0 of them refused" in shown
        assert "Would have been refused (recursive_loop_detected): identical request" in shown
        assert "Blocked" not in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--since", "yesterday"], "--since: must be a span such as 90s, 30m, 24h or 7d"),
        (["list", "--limit", "0"], "limit: is 0, must be 1 or more"),
        (["show", "inc_none"], "No incident has this id"),
        (["inc_4be0"], "No such command 'inc_4be0'"),
    ],
    ids=["since", "limit", "unknown", "no command"],
)
def test_mistakes_are_said_and_exit_2(running, arguments, says):
    result = running.run("incidents", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr


@pytest.mark.parametrize("command", ["list", "follow"])
def test_where_nobody_listens_it_says_so(command):
    address = f"127.0.0.1:{free_port()}"
    result = CliRunner().invoke(main, ["incidents", command, "--admin", address])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is `looptrap serve` running there?" in result.stderr


class Following:
    """A command that follows something, as a process of its own."""

    def __init__(self, process):
        self.process = process

    async def line(self):
        return await self._read(self.process.stdout)

    async def says(self):
        return await self._read(self.process.stderr)

    async def _read(self, stream):
        async with asyncio.timeout(PATIENCE):
            line = await stream.readline()
        assert line, "it ended"
        return line.decode()

    async def interrupted(self, number=signal.SIGINT):
        """Press Ctrl-C, or send another signal; return the exit status and what was said."""
        self.process.send_signal(number)
        _, said = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        return self.process.returncode, said.decode()


@asynccontextmanager
async def following(admin, *flags, command=("incidents", "follow")):
    process = await asyncio.create_subprocess_exec(
        LOOPTRAP, *command, *flags,
        *("--admin", admin),
        env=BARE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        preexec_fn=interruptible,
    )  # fmt: skip
    try:
        yield Following(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


def address(operator):
    return f"127.0.0.1:{operator._base_url.port}"


async def loop(here, text="Again?", calls=7):
    for _ in range(calls):
        await here.ask(headers=JSON, body=chat(text))


async def test_follow_prints_what_is_open_and_then_what_happens(tmp_path):
    async with operating(tmp_path) as (here, operator):
        await loop(here)
        async with following(address(operator)) as it:
            before = await it.line()
            assert "identical-conversation" in before
            await loop(here, "Something else?")
            line = before
            while before.split()[3] in line:  # it may have been told in the middle
                line = await it.line()
            assert re.match(
                rf"{TIME}  inc_\w+  (block|warn): addr:127\.0\.0\.1 gpt-5\.3"
                r" \S+, \d hits, \d refused, .*\$\S+ saved\n",
                line,
            )
            assert await it.interrupted() == (0, "")


async def test_follow_ends_on_sigterm_as_on_ctrl_c(tmp_path):
    async with operating(tmp_path) as (here, operator), following(address(operator)) as it:
        await loop(here)
        assert await it.line()
        assert await it.interrupted(signal.SIGTERM) == (0, "")


async def test_follow_in_json_says_when_it_is_over(tmp_path):
    async with (
        operating(tmp_path, "[incidents]\nquiet = 1\n") as (here, operator),
        following(address(operator), "--json") as it,
    ):
        await loop(here)
        lines = [json.loads(await it.line())]
        while lines[-1]["state"] == "open":
            lines.append(json.loads(await it.line()))
        assert {one["id"] for one in lines} == {lines[0]["id"]}
        assert lines[-1]["closed"] is not None
        assert (await it.interrupted())[0] == 0


@pytest.mark.slow
async def test_follow_outlives_the_gateway(tmp_path):
    admin = f"127.0.0.1:{free_port()}"
    async with FakeProvider() as provider, AsyncExitStack() as stack:
        flags = ("--admin", admin, "--listen", "127.0.0.1:0", "--upstream", provider.url)

        async def start():
            gateway = await stack.enter_async_context(run(tmp_path, *flags))
            gateway.url = (await gateway.hears(r"guards (https?://\S+)"))[1]
            await gateway.hears("Policies")
            return gateway

        first = await start()
        it = await stack.enter_async_context(following(admin))
        for _ in range(6):
            await first.ask(chat())
        before = await it.line()
        first.send(signal.SIGKILL)
        await first.ended()
        assert (await it.says()).endswith("Retrying every second.\n")
        second = await start()
        assert await it.says() == "It answers again.\n"
        for _ in range(6):
            await second.ask(chat("Something else?"))
        line = before
        # On a slow machine it is told of before the sixth call, too.
        while before.split()[3] in line or "identical-conversation, 6 hits, 1 refused" not in line:
            line = await it.line()


@pytest.fixture
def room():
    # Short: the path of a Unix socket has a limit, which pytest's own folders come near.
    folder = Path(tempfile.mkdtemp(prefix="lt-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
async def test_with_several_workers_any_of_them_answers_for_all(tmp_path, room):
    file = tmp_path / "looptrap.toml"
    async with Receiver.running() as receiver, FakeProvider() as provider:
        file.write_text(
            f'[[channels]]\nname = "ops"\nurl = "{receiver.url}"\n'
            "allow_http = true\nallow_private = true\n"
        )
        flags = ("--config", file, "--workers", 2, "--upstream", provider.url)
        flags += ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        env = {"TMPDIR": str(room), "LOOPTRAP_STORE_TIMEOUT": str(STORE_TIMEOUT)}
        async with run(tmp_path, *flags, env=env) as gateway:
            gateway.url = (await gateway.hears(r"guards (https?://\S+)"))[1]
            await gateway.hears("Policies")
            admin = re.search(r"Dashboard +http://([^/\s]+)/", gateway.said)[1]

            async def command(*arguments):
                called = [*map(str, arguments), "--admin", admin]
                return await asyncio.to_thread(CliRunner().invoke, main, called)

            # That one worker got all of these connections has a chance of one in a million million.
            asked = [(await gateway.ask(chat())).status for _ in range(40)]
            assert asked == [200] * 5 + [429] * 35
            found = []

            async def is_all_there():
                found[:] = json.loads((await command("incidents", "--json")).stdout)
                return [one["refused"] for one in found] == [35]

            await until(is_all_there)
            assert len(found[0]["instances"]) == 2
            assert (await command("release", "--caller", found[0]["caller"])).exit_code == 0
            assert (await gateway.ask(chat())).status == 200
            assert (await command("alerts", "test")).stdout == "ops: delivered\n"
            await until(lambda: [one[:4] for one in receiver.heard if one[:4] == "evt_"])


def test_in_a_narrow_terminal_an_id_stays_whole(capsys, monkeypatch):
    from looptrap.cli import output

    monkeypatch.setattr(output.sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    output.print_table(("ID", "RULE", "#HITS"), [("inc_0123456789abcdef", "x" * 80, "1,234")])
    shown = capsys.readouterr().out
    assert "inc_0123456789abcdef" in shown
    assert shown.count("x") == 80
    assert "1,234" in shown


# What people say of them


def test_one_is_taken_care_of_noted_and_marked(running):
    found = refused(running)
    begin = found["id"][:14]
    assert "is acknowledged since 20" in running.run("incidents", "ack", begin).stdout
    assert running.run("incidents", "note", begin, "a cron job").stdout == (
        f"{found['id']} has 1 note.\n"
    )
    assert "is labelled confirmed." in running.run("incidents", "label", begin, "confirmed").stdout
    shown = running.run("incidents", "show", begin).stdout
    assert re.search(rf"^  acknowledged +by admin, {TIME}$", shown, re.MULTILINE)
    assert re.search(r"^  label +confirmed$", shown, re.MULTILINE)
    assert re.search(rf"^Notes\n  {TIME}  a cron job$", shown, re.MULTILINE)
    listed = running.run("incidents", "--label", "confirmed", "--search", "gpt-5", "--json")
    assert [one["id"] for one in json.loads(listed.stdout)] == [found["id"]]
    gone = running.run("incidents", "label", begin, "none").stdout
    assert gone == f"{found['id']} has no label.\n"
    assert json.loads(running.run("incidents", "--label", "confirmed", "--json").stdout) == []


def test_a_false_alarm_is_offered_as_a_setting_of_its_tool(running):
    async def ask():
        return (await running.here.ask(headers=JSON, body=reading(7))).status

    assert running.wait(ask()) == 429
    drawn = lambda out: any(one["tool"] for one in json.loads(out))  # noqa: E731
    (found,) = json.loads(running.until(drawn, "incidents", "--json").stdout)
    said = running.run("incidents", "label", found["id"], "false_alarm").stdout
    assert 'PUT /api/v1/tools/read_file {"thresholds": {"warn": 8, "block": 10}}' in said


@pytest.mark.parametrize(
    "arguments",
    [["ack", "inc_none"], ["note", "inc_none", "x"], ["label", "inc_none", "confirmed"]],
    ids=lambda one: one[0],
)
def test_nothing_is_said_of_what_is_not_there(running, arguments):
    result = running.run("incidents", *arguments)
    assert result.exit_code == 2
    assert "No incident has this id" in result.stderr


def test_incidents_are_exported_grouped_and_closed(running):
    named = {"X-Looptrap-Session": "=cmd()"}
    found = refused(running, **named)
    exported = running.run("incidents", "export")
    assert exported.exit_code == 0, exported.output
    [row] = csv.DictReader(exported.stdout.splitlines())
    assert (row["id"], row["session"], row["refused"]) == (found["id"], "'=cmd()", "2")
    as_json = running.run("incidents", "export", "--format", "json", "--since", "1h")
    assert [one["id"] for one in json.loads(as_json.stdout)] == [found["id"]]
    assert running.run("incidents", "export", "--until", "1h", "--format", "json").stdout == "[]\n"
    grouped = running.run("incidents", "--group", "rule", "--order", "cost")
    heading, line = grouped.stdout.splitlines()
    assert heading.split()[:3] == ["RULE", "INCIDENTS", "OPEN"]
    assert line.split()[:5] == ["identical-conversation", "1", "1", "7", "2"]
    closed = running.run("incidents", "close", found["id"][:14])
    assert closed.stdout == f"{found['id']} is closed.\n"
    again = running.run("incidents", "close", found["id"])
    assert again.stdout == f"{found['id']} was closed already.\n"
    assert running.run("incidents").stdout == "There are no open incidents.\n"
