"""What the page on retries and its example show is what happens."""

import re
import subprocess
import sys
from pathlib import Path

from tests.retry.failing import Fake

from looptrap.retry import testing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "retry.md").read_text("utf-8")
EXAMPLE = ROOT / "examples" / "retry_turn.py"


class Client:
    """What the page calls `client`."""

    def __init__(self):
        self.fail = Fake(always=ConnectionResetError())
        self.flaky = Fake(ConnectionResetError())
        self.ask_for_json = Fake(answer="[1, 2, 3]")

    def ask(self, prompt):
        return f"answer to {prompt}"

    def stream(self, prompt):
        yield from prompt.split()


def test_every_block_of_the_page_runs_in_order():
    names = {"client": Client()}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    with testing():
        for block in blocks:
            exec(compile(block, "docs/retry.md", "exec"), names)
    assert len(blocks) > 10
    assert names["answer"] == "answer to hello"
    assert list(names["tokens"]("a b")) == ["a", "b"]
    assert names["ask_again"]("who?") == "answer to who?"


def test_the_example_shows_a_retry_a_result_kept_and_a_turn_given_up():
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "step 1: I shall book LH 123.",
        "tool: booked LH 123",
        "tool: seat 12A",
        "tool: seat 12A",
        "left: 7 steps, 13 tool calls",
        "step 2: gave up, http_401",
        "waited [0.4] seconds",
    ]
