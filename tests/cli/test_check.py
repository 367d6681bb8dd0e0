"""`looptrap check`: what a valid configuration means, and what is wrong with an invalid one."""

import json
import os
import re
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner, Result

from looptrap.cli import main
from looptrap.config.description import ordinal

LADDER = """
[[policies]]
name = "agents"
mode = "shadow"
select = { path_prefix = "/v1/", methods = ["POST"], hosts = ["a.b"], models = ["gpt-*"], \
headers = { x-team = "*", x-env = "prod" } }

  [[policies.rules]]
  name = "ladder"
  watch = "tool"
  window_kind = "fixed"
  window = 90
  thresholds = { warn = 3, throttle = 11, stop = 22 }
  cooldown = 7.5
  extend = true

  [[policies.rules]]
  name = "resting"
  watch = "session"
  threshold = 10
  enabled = false

[[projects]]
name = "research"
keys = ["crawler", "notebook"]
detection = "shadow"
threshold = 12
action = "warn"

[[kill_switches]]
match = { caller = "c1", "header:x-team" = "red" }
reason = "credential leaked"
expires = 2099-12-01T00:00:00Z
path_prefix = "/v1/"
"""


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Write the text to a file and check it in an environment that sets nothing of ours."""

    def check(text: str | None, *arguments: str, name: str = "looptrap.toml", **env) -> Result:
        for variable in ("LOOPTRAP_PRESET", "LOOP_GUARD_MAX_HITS"):
            monkeypatch.delenv(variable, raising=False)
        path = tmp_path / name
        if text is not None:
            path.write_text(text, encoding="utf-8")
        files = [str(path)] if text is not None else []
        return CliRunner().invoke(main, ["check", *files, *arguments], env=env)

    return check


def test_says_in_a_sentence_what_the_default_does(check):
    result = check("")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[:5] == [
        "Policies of preset default",
        "  default: binds every call",
        "    identical-conversation: the 6th equal conversation or the same prompt with words"
        " before it in a row, each within 15 s of the answer before, is blocked for 30 s, extended"
        " by every attempt, counted by caller, model, session and user; under other sessions or"
        " users, 2 times as many, one right after the other",
        "    no-progress: the 4th equal round within the latest 12 rounds passes with a warning and"
        " the 5th is blocked for 30 s",
        "    cycle: the 3rd equal block of rounds in a row within the latest 40 rounds is blocked"
        " for 30 s",
    ]
    assert lines[-6:] == [
        "Otherwise",
        "  A loop is refused with the HTTP status that ends its agent, else with 429.",
        "  A session is named by X-Looptrap-Session, X-Session-Id or X-Zelyx-Session-Id, or by a"
        " known agent.",
        "  At most 1,000,000 fingerprints are remembered.",
        "  Incidents are kept in looptrap.db for 90 days.",
        "  Calls are logged, without their texts, for 7 days, at most 500,000.",
    ]


def test_says_what_everything_else_does(check):
    assert check(LADDER).stdout.splitlines()[:9] == [
        "Policies",
        "  agents (shadow: reported, never acted on): binds every POST call under /v1/ to a.b"
        ' for model gpt-* with header x-team and header x-env = "prod"',
        "    ladder: the 3rd equal tool call within 90 s of the first passes with a warning, the"
        " 11th is delayed and the 22nd is answered with a final message for 7.5 s, extended by"
        " every attempt, counted by caller",
        "    resting: is off",
        "Projects",
        "  research (keys crawler and notebook): detection is shadow, with its own threshold 12"
        ' and action "warn"',
        "Kill switches",
        '  Every call under /v1/ whose caller is "c1" and header:x-team is "red" is refused'
        " until 2099-12-01T00:00:00+00:00 (credential leaked).",
        "Providers",
    ]


ROUTED = """
history = ""

[[routes]]
select = { path_prefix = "/v1/chat/", models = ["smart"] }
chain = ["anthropic/claude-opus-4-7", "openai"]
attempts = 3
deadline = 90

[[channels]]
name = "ops"
url = "https://ops.example.com/hook/secret"
events = ["loop.*", "breaker.opened"]
projects = ["research"]
"""


def test_says_where_calls_go_and_who_is_told(check):
    lines = check(ROUTED).stdout.splitlines()
    begin = lines.index("Routes")
    assert lines[begin : begin + 5] == [
        "Routes",
        "  every call under /v1/chat/ for model smart goes to anthropic/claude-opus-4-7, then"
        " openai, each up to 3 times, within 90 s",
        "Channels",
        "  ops (webhook) gets loop.* and breaker.opened of research",
        "Store and keys",
    ]
    assert lines[-2:] == [
        "  Incidents are forgotten when the gateway ends.",
        "  Calls are logged, without their texts, until the gateway ends.",
    ]
    assert "secret" not in "".join(lines)


@pytest.mark.parametrize(
    ("preset", "sentence"),
    [
        (
            "fairvisor",
            "loop-detection: the 4th equal request within 60 s of the one before is blocked,"
            " counted by caller",
        ),
        (
            "zelyx",
            "busy-session: the 10th call of a session within 60 s passes with a warning, counted"
            " by caller; without a session id, 10 times as many, counted by project",
        ),
        (
            "tcc",
            "repeated-call: the 3rd equal round within the latest 3 rounds passes with a nudge"
            " to the model",
        ),
        ("tcc", "turn-budget: the 16th tool call of a turn is blocked"),
    ],
)
def test_says_what_a_preset_does(check, preset, sentence):
    assert f"    {sentence}\n" in check(None, "--preset", preset).stdout


def test_says_when_nothing_is_detected(check):
    result = check(None, LOOP_GUARD_MAX_HITS="0")
    assert "No rule is in effect: nothing is detected." in result.stdout
    assert result.stderr == "warning: LOOP_GUARD_MAX_HITS: is 0, so all detection is off\n"


def test_prints_every_mistake_on_a_line_of_standard_error(check):
    result = check(
        'preset = "asig"\n[[policies]]\nname = "p"\n'
        '[[policies.rules]]\nname = "r"\nwatch = "tool"\nthreshold = 1\ntreshold = 2\n'
    )
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.splitlines()[1:] == [
        "policies[0].rules[0].treshold: is not a setting, did you mean threshold?",
        "policies[0].rules[0].threshold: is 1, must be 2 or more (a first call is never a repeat)",
    ]


def test_a_file_that_is_not_there_is_one_line(check, tmp_path):
    result = check(None, str(tmp_path / "none.toml"))
    assert (result.exit_code, result.stderr) == (2, f"{tmp_path}/none.toml: does not exist\n")


def test_effective_shows_every_value_with_its_origin(check):
    result = check("block_status = 403", "--effective", "--preset", "aisg", LOOP_GUARD_MAX_HITS="9")
    lines = [re.sub(" +", " ", line) for line in result.stdout.splitlines()]
    assert 'preset = "aisg" # --preset' in lines
    assert "block_status = 403 # looptrap.toml" in lines
    assert "max_fingerprints = 1000000 # default" in lines
    assert 'policies[0].rules[0].parts = "content" # preset aisg' in lines
    assert "policies[0].rules[0].thresholds = { block = 10 } # LOOP_GUARD_MAX_HITS" in lines
    assert all(re.fullmatch(r"\S+ = .+ # .+", line) for line in lines)


def test_checks_a_fairvisor_bundle(check):
    spec = {
        "selector": {"pathPrefix": "/v1/chat/", "methods": ["POST"]},
        "rules": [],
        "circuit_breaker": {"enabled": True},
        "loop_detection": {
            "enabled": True,
            "window_seconds": 60,
            "threshold_identical_requests": 10,
            "action": "throttle",
        },
    }
    bundle = {"bundle_version": 1, "policies": [{"id": "loops", "spec": spec}]}
    result = check(json.dumps(bundle), name="bundle.json")
    assert result.exit_code == 0
    assert (
        "  loops: binds every POST call under /v1/chat/\n"
        "    loop-detection: the 10th equal request within 60 s of the one before is delayed,"
        " counted by caller\n"
    ) in result.stdout
    assert result.stderr == "warning: policies[0].spec.circuit_breaker: is not enforced yet\n"


def test_says_what_is_wrong_with_a_bundle(check):
    result = check("{}", name="bundle.json")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0].endswith(
        "bundle.json: bundle_version is null, must be a positive number"
    )


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (13, "13th"),
        (21, "21st"), (101, "101st"), (111, "111th"),
    ],
)  # fmt: skip
def test_ordinals(count, expected):
    assert ordinal(count) == expected


@pytest.mark.parametrize(
    ("toml", "env", "mistake"),
    [
        pytest.param(
            '[[channels]]\nurl = "http://hooks.example/x"',
            {},
            "channels[0].url: is plain http, must be https",
            id="a channel in plain http",
        ),
        pytest.param(
            '[[channels]]\nurl = "https://127.0.0.1/x"',
            {},
            "channels[0].url: leads to 127.0.0.1, which is not public",
            id="a channel to a private address",
        ),
        pytest.param(
            '[[channels]]\nurl_env = "HOOK"',
            {"HOOK": "ftp://hooks.example/secret"},
            "channels[0].url_env: begins with 'ftp://', must begin with https://",
            id="a channel in a variable",
        ),
        pytest.param(
            '[gateway]\nadmin = "0.0.0.0:4101"\nadmin_token_env = "TOKEN"',
            {"TOKEN": "x"},
            "gateway.admin_token_env: its token has 1 character, must have 16 or more",
            id="a short admin token",
        ),
        pytest.param(
            '[gateway]\nlisten = "0.0.0.0:4100"\ndecision_token_env = "TOKEN"',
            {"TOKEN": "short"},
            "gateway.decision_token_env: its token has 5 characters, must have 16 or more",
            id="a short decision token",
        ),
        pytest.param(
            '[gateway]\nadmin = "0.0.0.0:4101"',
            {},
            "gateway.admin: 0.0.0.0 can be reached by others",
            id="an admin address without a token",
        ),
    ],
)
def test_finds_what_serve_would_refuse_at_its_start(check, toml, env, mistake):
    result = check(toml, **env)
    assert result.exit_code == 2
    assert mistake in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""


UNSET = """
history = "taken/history.db"
[gateway]
admin_token_env = "NOWHERE"
capture_dir = "taken/captures"
state = "gone/state"
[[channels]]
url_env = "NEITHER"
[[channels]]
url = "https://ops.example/hook"
secret_env = "NOR"
"""
NEEDED = [
    "gateway.admin_token_env: the variable NOWHERE is not set, or empty",
    "channels[0].url_env: names the variable NEITHER, which is not set",
    "channels[1].secret_env: names the variable NOR, which is not set",
    "history: taken/history.db: cannot write there: {here}/taken is not a directory",
    "gateway.state: gone/state: cannot write there: no such file or directory",
    "gateway.capture_dir: taken/captures: cannot write there: {here}/taken is not a directory",
]


@pytest.mark.parametrize("command", [["check"], ["serve", "--config"]], ids=["check", "serve"])
def test_check_and_serve_find_the_same_in_the_same_words(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looptrap.toml").write_text(UNSET)
    (tmp_path / "taken").touch()
    result = CliRunner().invoke(main, [*command, "looptrap.toml"])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [line.format(here=tmp_path) for line in NEEDED]
    assert not (tmp_path / "gone").exists()


def test_a_file_can_be_checked_where_its_variables_and_folders_are_not(check):
    result = check(UNSET, "--file-only")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Gateway keys are in gone/state: once there is one, every caller needs one." in (
        result.stdout
    )


@pytest.mark.parametrize("command", [["check"], ["serve", "--config"]], ids=["check", "serve"])
@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        pytest.param(b"garbage " * 1_000, "is not a SQLite database", id="no database"),
        pytest.param(None, "is a database of another program", id="of another program"),
    ],
)
def test_check_and_serve_refuse_a_history_that_is_none(
    command, content, mistake, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looptrap.toml").write_text('history = "other.db"')
    if content is None:
        with closing(sqlite3.connect("other.db")) as other:
            other.execute("CREATE TABLE other (x)")
    else:
        (tmp_path / "other.db").write_bytes(content)
    result = CliRunner().invoke(main, [*command, "looptrap.toml"])
    assert (result.exit_code, result.stderr) == (2, f"history: {tmp_path}/other.db: {mistake}\n")


def test_says_that_a_file_in_the_folder_is_not_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "looptrap.toml").touch()
    warning = "warning: looptrap.toml: is in this folder and is not read unless it is named\n"
    assert CliRunner().invoke(main, ["check"]).stderr == warning
    assert CliRunner().invoke(main, ["check", "looptrap.toml"]).stderr == ""
    assert "looptrap doctor --config looptrap.toml" in CliRunner().invoke(main, ["doctor"]).stdout


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_finds_a_folder_that_cannot_be_written(check, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o500)
    assert "cannot write there: permission denied" in check(f'history = "{folder}/h.db"').stderr


KEYS = """
[[providers]]
name = "azure"
kind = "azure"
base_url = "https://r.openai.azure.com/openai/v1"
[[routes]]
chain = ["azure", "openai", "vllm"]
"""


def test_says_which_keys_of_providers_are_set_and_warns_of_those_that_calls_need(check):
    result = check(KEYS, AZURE_OPENAI_API_KEY="k", OPENAI_API_KEY="")
    assert result.exit_code == 0
    begin = result.stdout.splitlines().index("Providers")
    assert result.stdout.splitlines()[begin + 1 : begin + 4] == [
        "  azure at https://r.openai.azure.com/openai/v1 has its key in AZURE_OPENAI_API_KEY (set)",
        "  openai at https://api.openai.com/v1 has its key in OPENAI_API_KEY (not set)",
        "  vllm at http://127.0.0.1:8000/v1 needs no key",
    ]
    assert result.stderr == (
        "warning: provider openai: names the variable OPENAI_API_KEY, which is not set: chains"
        " skip it\n"
    )


def test_says_where_calls_are_counted_and_how_many_keys_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    run(main, ["keys", "add", "ci"])
    lines = run(main, ["check"]).stdout.splitlines()
    begin = lines.index("Store and keys")
    assert lines[begin + 1 : begin + 3] == [
        "  Calls are counted in the process of the gateway.",
        "  There is 1 gateway key in looptrap.state: every caller needs one.",
    ]
