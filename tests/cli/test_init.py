"""`looptrap init`: three answers become a file that is valid."""

import os
import pty
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.serving import BARE, LOOPTRAP

from looptrap.cli import main
from looptrap.cli.init import (
    ALERT_VARIABLES,
    MODELS,
    PLACEHOLDER_URLS,
    STRICTNESS,
    Answers,
    toml_of,
)
from looptrap.cli.start_check import PLACEHOLDER
from looptrap.config import load
from looptrap.config.provider import KINDS

VALUES = {
    "SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/T/B/x",
    "ALERT_WEBHOOK_URL": "https://ops.example.com/looptrap",
    "ALERT_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYqr",
    "APPRISE_URL": "discord://1234567890/abcdefghijklmnop",
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **env):
        return CliRunner().invoke(main, [*arguments], env=env)

    return run


@pytest.mark.parametrize("alert", ALERT_VARIABLES)
@pytest.mark.parametrize("strictness", STRICTNESS)
@pytest.mark.parametrize("provider", KINDS)
def test_what_it_writes_passes_check_for_all_answers(run, provider, strictness, alert):
    answers = ["--provider", provider, "--strictness", strictness, "--alert", alert]
    written = run("init", *answers)
    assert (written.exit_code, written.stderr) == (0, "")
    needed = {name: VALUES[name] for name in ALERT_VARIABLES[alert]}
    file = Path("looptrap.toml")
    file.write_text(PLACEHOLDER.sub("mine", file.read_text()))
    keys = KINDS[provider].get("api_key_env")
    checked = run("check", "looptrap.toml", **needed, **({keys: "key"} if keys else {}))
    assert (checked.exit_code, checked.stderr) == (0, "")
    assert all(name in written.stdout for name in needed)


@pytest.mark.parametrize("pair", [*product(KINDS, KINDS)], ids="-".join)
def test_any_two_providers_go_together(pair, tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(toml_of(Answers(tuple(dict.fromkeys(pair)), "block", "none")))
    config = load(file)
    assert {one.name for one in config.providers} == {*pair}
    assert config.warnings == ()


def test_every_provider_that_paths_do_not_find_has_models_and_perhaps_a_place_for_its_address():
    assert {*MODELS} == {*KINDS} - {"openai", "anthropic", "gemini"}
    assert {*PLACEHOLDER_URLS} == {name for name, known in KINDS.items() if "base_url" not in known}


@pytest.mark.parametrize(
    ("provider", "words"),
    [("azure", "RESOURCE"), ("bedrock", "REGION"), ("vertex", "REGION and PROJECT")],
)
def test_an_address_that_was_not_replaced_is_found_before_a_start(run, provider, words):
    run("init", "--provider", provider)
    checked = run("check", "looptrap.toml")
    assert checked.exit_code == 2
    assert checked.stderr == (
        f"providers[0].base_url: put your own {words} into {PLACEHOLDER_URLS[provider]}\n"
    )


def test_the_answers_are_in_effect(run):
    run("init", "--provider", "groq", "--strictness", "shadow", "--alert", "slack")
    config = load("looptrap.toml")
    assert (config.mode, config.channels[0].kind) == ("shadow", "slack")
    assert config.routes[0].provider == "groq"


def test_without_a_terminal_nothing_is_asked_and_defaults_are_taken(run):
    written = run("init")
    assert written.exit_code == 0
    assert [one.name for one in load("looptrap.toml").providers] == ["openai", "anthropic"]
    for step in ("OPENAI_API_KEY", "looptrap doctor", "looptrap serve", "OPENAI_BASE_URL"):
        assert step in written.stdout


def test_a_file_is_replaced_only_on_demand(run, tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text("mine")
    refused = run("init", "--yes")
    assert (refused.exit_code, file.read_text()) == (2, "mine")
    assert refused.stderr == "looptrap.toml: exists: --force replaces it\n"
    assert run("init", "--yes", "--force").exit_code == 0
    assert "[[providers]]" in file.read_text()


def test_a_folder_that_is_not_there_is_one_clear_line(run):
    refused = run("init", "--output", "gone/looptrap.toml")
    assert refused.exit_code == 2
    assert refused.stderr == "gone/looptrap.toml: cannot write there: no such file or directory\n"


@pytest.mark.parametrize("output", ["", "."])
def test_what_cannot_be_a_file_is_one_clear_line(run, output):
    refused = run("init", "--output", output, "--force")
    assert refused.exit_code == 2
    assert refused.stderr == f"--output: is {output!r}, must be the path of a file\n"


@pytest.mark.parametrize(
    "flags",
    [
        ("--provider", "OpenAI", "--provider", "vllm"),
        ("--provider", "openai,VLLM"),
        ("--provider", "openai vllm, openai"),
    ],
    ids=" ".join,
)
def test_names_of_providers_are_taken_as_people_write_them(run, flags):
    assert run("init", *flags, "--strictness", "Stop").exit_code == 0
    config = load("looptrap.toml")
    assert [one.name for one in config.providers] == ["openai", "vllm"]
    assert config.on_loop == "stop"


@pytest.mark.parametrize(
    ("provider", "programs", "variables"),
    [
        ("anthropic", "claude", {"ANTHROPIC_BASE_URL"}),
        ("openai", "codex", {"OPENAI_BASE_URL"}),
        ("gemini", "gemini", {"GOOGLE_GEMINI_BASE_URL"}),
        ("vllm", "opencode", {"OPENAI_BASE_URL"}),
    ],
)
def test_it_says_how_clients_of_these_providers_are_pointed_at_it(
    run, provider, programs, variables
):
    written = run("init", "--provider", provider).stdout
    assert f"looptrap setup {programs} --write" in written
    assert {*re.findall(r"\w+_BASE_URL", written)} == variables


def test_an_unknown_provider_is_refused_with_those_that_are_known(run):
    refused = run("init", "--provider", "opneai")
    assert refused.exit_code == 2
    assert "openai, anthropic, gemini" in refused.stderr


def test_in_a_terminal_it_asks_three_questions_and_never_overwrites_unasked(tmp_path):
    file = tmp_path / "looptrap.toml"
    assert "Wrote looptrap.toml" in answer(tmp_path, "opneai", "openai, vllm", "stop", "webhook")
    config = load(file)
    assert [one.name for one in config.providers] == ["openai", "vllm"]
    assert (config.on_loop, config.channels[0].kind) == ("stop", "webhook")
    before = file.read_text()
    assert "looptrap.toml exists. Replace it?" in answer(tmp_path, "n")
    assert file.read_text() == before


def answer(folder, *lines):
    """Run the command in a terminal, type these lines, and return what it shows."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [LOOPTRAP, "init"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=BARE
    )
    os.close(theirs)
    os.write(ours, "".join(f"{line}\n" for line in lines).encode())
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:
        pass  # its end of the terminal is closed
    finally:
        os.close(ours)
        process.wait(30)
    return shown.decode()
