"""Agents of real frameworks: stuck ones are stopped, honest ones never notice."""

import pytest
from tests.frameworks.cast import FRAMEWORKS, PLAYING, ROOT
from tests.frameworks.page import compare
from tests.frameworks.scene import ANSWER, EXAMPLES, Played, honest, play

STOPPING = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "no-progress"
  watch = "repeat"
  threshold = 5
  action = "stop"

  [[policies.rules]]
  name = "cycle"
  watch = "cycle"
  threshold = 3
  action = "stop"

  [[policies.rules]]
  name = "near-repeat"
  watch = "near_repeat"
  threshold = 6
  action = "stop"
"""
WAYS = {"429": "", "400": "block_status = 400", "stop": STOPPING}
"""What is asked of the gateway, in its own words."""

frameworks = pytest.mark.parametrize("framework", PLAYING, ids=lambda one: one.title)
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda one: one.title)


def perform(framework, script, folder, toml="") -> Played:
    return play(
        framework.command(folder),
        script,
        folder,
        toml=toml,
        env=framework.variables,
        patience=framework.patience,
    )


@frameworks
def test_a_stuck_agent_is_stopped_and_its_run_ends_cleanly(framework, tmp_path):
    cells = []
    for way, toml in WAYS.items():
        played = perform(framework, framework.stuck, tmp_path, toml)
        assert played.status == 0, played.errors
        assert played.calls == framework.passed, way
        assert played.refused == framework.refused[way], way
        assert framework.told in played.last, (way, played)
        cells.append(f"{played.refused}, `{played.last.partition(':')[0]}`")
    name = framework.page.relative_to(ROOT / "docs")
    catches = f"`{framework.catches}`" if framework.catches else "–"
    compare(
        framework.title, f"| [{framework.title}](../{name}) | {catches} | {' | '.join(cells)} |"
    )


@frameworks
def test_an_honest_agent_never_notices(framework, tmp_path):
    played = perform(framework, honest(framework.finish), tmp_path)
    assert played.status == 0, played.errors
    assert played.last == f"answer: {ANSWER}"
    assert (played.calls, played.refused, played.warned) == (4, 0, 0)


@every_framework
def test_the_page_of_a_framework_shows_its_example_as_it_is(framework):
    source = (EXAMPLES / framework.example).read_text("utf-8")
    language = "js" if framework.example.endswith(".mjs") else "python"
    assert len(source.splitlines()) <= 40
    assert f"```{language}\n{source}```" in framework.page.read_text("utf-8")
    assert framework.catches in source


def test_every_example_of_a_framework_is_played():
    assert {path.name for path in EXAMPLES.iterdir() if path.is_file()} == {
        one.example for one in FRAMEWORKS
    }
