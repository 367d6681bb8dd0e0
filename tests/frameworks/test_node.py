"""What the pages about Node's clients say beyond their examples."""

import re
from pathlib import Path

import pytest
from tests.frameworks.cast import ROOT, link_packages
from tests.frameworks.scene import EXAMPLES, Played, Script, play, stuck
from tests.frameworks.test_frameworks import STOPPING

from looptrap.testing import Received, Reply

pytestmark = pytest.mark.env("node")

PAGES = ROOT / "docs" / "frameworks"
LAST_MESSAGE = Path(__file__).parent / "node" / "last_message.mjs"
CLIENTS = ["openai_node", "anthropic_node", "vercel_ai"]

REFUSING = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "no-progress"
  watch = "repeat"
  threshold = 5
  {waiting}
"""

ASKING = """
import {{ ask }} from "./snippet.mjs";

for (let n = 1; n <= 6; n++) console.log(await ask({run}, "Hello").catch(() => "refused"));
"""


def snippet(page: str, name: str) -> str:
    """Return the block of a page that exports a name."""
    text = (PAGES / f"{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```js\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [found] = [one for one in blocks if re.search(rf"^export .*\b{name}\b", one, re.MULTILINE)]
    return found


def written(folder: Path, **modules: str) -> None:
    """Write modules, with the packages for Node beside them."""
    link_packages(folder)
    for name, source in modules.items():
        (folder / f"{name}.mjs").write_text(source, "utf-8")


def run_of(folder: Path, script: Script, toml: str = "") -> Played:
    """Play the module `main`; nothing of it may go wrong."""
    played = play(["node", folder / "main.mjs"], script, folder, toml=toml)
    assert (played.status, played.errors) == (0, "")
    return played


def retrying() -> str:
    """Return the Vercel example with the retries that the SDK makes unless told not to."""
    source = (EXAMPLES / "vercel_ai.mjs").read_text("utf-8")
    for line, instead in (
        (r" *maxRetries: 0,.*\n", ""),
        (r"} catch \(error\) {", "} catch (thrown) {\n  const error = thrown.lastError ?? thrown;"),
        (r"    stopWhen: .*", "    stopWhen: stepCountIs(8),"),
    ):
        source, replaced = re.subn(f"^{line}", instead, source, flags=re.MULTILINE)
        assert replaced == 1, line
    return source


def hello(received: Received) -> Reply | None:
    return Reply.text("Hello.") if received.call.generates else None


@pytest.mark.parametrize("page", CLIENTS)
@pytest.mark.parametrize(
    ("run", "last", "refused"),
    [
        pytest.param("`run-${n}`", "Hello.", 0, id="six runs that ask the same are no loop"),
        pytest.param('"run-1"', "refused", 1, id="one run that asks it six times is one"),
    ],
)
def test_a_run_has_the_name_that_it_was_given(page, run, last, refused, tmp_path):
    written(tmp_path, snippet=snippet(page, "ask"), main=ASKING.format(run=run))
    played = run_of(tmp_path, hello)
    assert played.lines == ["Hello."] * 5 + [last]
    assert played.refused == refused


@pytest.mark.parametrize(
    ("waiting", "calls", "refused", "last"),
    [
        pytest.param(
            "cooldown = 1", 8, 3, "answer: ", id="waits the cooldown out, and its call passes"
        ),
        pytest.param(
            "cooldown = 30\n  retry_after = 1",
            5,
            3,
            "stopped: Blocked (recursive_loop_detected): find_part",
            id="is refused three times while it lasts, and gives up",
        ),
    ],
)
def test_vercel_retries_a_429_although_it_was_told_not_to(waiting, calls, refused, last, tmp_path):
    written(tmp_path, main=retrying())
    played = run_of(tmp_path, stuck, REFUSING.format(waiting=waiting))
    assert (played.calls, played.refused) == (calls, refused)
    assert played.last.startswith(last)


def test_vercel_obeys_with_the_fetch_that_its_page_shows(tmp_path):
    source, replaced = re.subn(
        r"^const gateway = .*?^}\);$",
        'import { gateway } from "./snippet.mjs";',
        retrying(),
        flags=re.MULTILINE | re.DOTALL,
    )
    assert replaced == 1
    written(tmp_path, snippet=snippet("vercel_ai", "gateway"), main=source)
    played = run_of(tmp_path, stuck, REFUSING.format(waiting="cooldown = 1"))
    assert (played.calls, played.refused) == (5, 1)
    assert played.last.startswith("stopped: Blocked (recursive_loop_detected): find_part")


def test_every_client_takes_the_last_message_of_an_ended_run_for_an_answer(tmp_path):
    written(tmp_path, main=LAST_MESSAGE.read_text("utf-8"))
    played = run_of(tmp_path, stuck, STOPPING)
    assert played.calls == 0
    assert played.lines == [
        "openai chat: Looptrap ended, stop, 0, stop",
        "openai chat, streamed: Looptrap ended, stop, 0, unseen",
        "openai responses: Looptrap ended, completed, 0, stop",
        "openai responses, streamed: Looptrap ended, completed, 0, unseen",
        "anthropic: Looptrap ended, end_turn, 0, stop",
        "anthropic, streamed: Looptrap ended, end_turn, 0, unseen",
        "vercel: Looptrap ended, stop, 0, stop",
        "vercel, streamed: Looptrap ended, stop, 0, stop",
    ]
