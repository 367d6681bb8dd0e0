"""`looptrap run`, in this process or in one of its own, and commands that call a model."""

import json
import os
import subprocess
import sys

from click.testing import CliRunner
from tests.cli.serving import BARE, LOOPTRAP, interruptible

from looptrap.cli import main

ASK = """
import json, os, sys, urllib.error, urllib.request
url, body, times = sys.argv[1:]
for number in range(int(times)):
    content = body.replace("{number}", str(number)).encode()
    fields = {"Content-Type": "application/json", "X-Api-Key": os.environ.get("KEY", "k")}
    asked = urllib.request.Request(os.path.expandvars(url), content, fields)
    try:
        with urllib.request.urlopen(asked) as answer:
            print(answer.status, answer.headers["X-Looptrap-Verdict"])
    except urllib.error.HTTPError as error:
        print(error.code, error.headers["X-Looptrap-Verdict"])
"""

CHAT_URL = "$OPENAI_BASE_URL/chat/completions"


def chat(text="Again?", model="gpt-5.3"):
    return json.dumps({"model": model, "messages": [{"role": "user", "content": text}]})


def asking(times=1, body=None, url=CHAT_URL):
    """Return a command that posts a body to a URL with variables, and prints statuses."""
    return [sys.executable, "-S", "-c", ASK, url, body or chat(), str(times)]


class RunHere:
    """Runs the command in this process: `status`, `out` of its command, and what it `said`."""

    def __init__(self, folder, monkeypatch, capfd):
        self._capfd = capfd
        monkeypatch.chdir(folder)
        for name in os.environ:
            monkeypatch.delenv(name)
        for name, value in {**BARE, "HOME": str(folder)}.items():
            monkeypatch.setenv(name, value)

    def __call__(self, *arguments, **env):
        self._capfd.readouterr()
        result = CliRunner().invoke(main, ["run", *map(str, arguments)], env=env)
        self.status, self.said = result.exit_code, result.stderr
        self.out, self.err = self._capfd.readouterr()
        return self


def start(folder, *arguments, env=None, **options):
    """Start the command in a folder, which is the home, too."""
    return subprocess.Popen(
        [LOOPTRAP, "run", *map(str, arguments)],
        cwd=folder,
        env={**BARE, "HOME": str(folder), **(env or {})},
        text=True,
        **{"preexec_fn": interruptible}
        | dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        | options,
    )
