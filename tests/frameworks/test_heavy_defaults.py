"""What frameworks do by default that their examples switch off, or that a refusal never meets."""

import pytest
from tests.frameworks.cast import ENVIRONMENTS, FRAMEWORKS
from tests.frameworks.scene import EXAMPLES, Played, circling, play, stuck

SOON = """
[[policies]]
name = "p"
  [[policies.rules]]
  name = "no-progress"
  watch = "repeat"
  threshold = 5
  action = "block"
  cooldown = 30
  retry_after = 1
"""
"""The default's first rule, with refusals that ask for a shorter wait than they mean."""


def perform(title, script, folder, toml="", *, without="", instead="") -> Played:
    """Play a framework's example, with a piece of it replaced."""
    framework = next(one for one in FRAMEWORKS if one.title == title)
    source = (EXAMPLES / framework.example).read_text("utf-8")
    assert without in source
    example = folder / framework.example
    example.write_text(source.replace(without, instead), "utf-8")
    return play(
        [ENVIRONMENTS / framework.env / "bin" / "python", example],
        script,
        folder,
        toml=toml,
        env=framework.variables,
        patience=framework.patience,
    )


@pytest.mark.env("b")
@pytest.mark.parametrize("toml", ["", "block_status = 400"], ids=["429", "400"])
def test_litellm_tries_as_often_as_it_is_told_to_whatever_it_hears(tmp_path, toml):
    played = perform(
        "LiteLLM",
        stuck,
        tmp_path,
        toml,
        without="tools=[tool])",
        instead="tools=[tool], num_retries=2)",
    )
    assert (played.calls, played.refused) == (5, 3)
    assert played.last.startswith("stopped: Blocked (recursive_loop_detected): find_part")


@pytest.mark.env("b")
def test_llama_index_asks_three_times_where_it_does_not_stream(tmp_path):
    played = perform(
        "LlamaIndex",
        stuck,
        tmp_path,
        SOON,
        without="FunctionAgent(",
        instead="FunctionAgent(streaming=False, ",
    )
    assert (played.calls, played.refused) == (5, 3)
    assert played.last.startswith("stopped: Blocked (recursive_loop_detected): find_part")


@pytest.mark.env("c")
def test_crewai_sees_equal_calls_with_equal_results_itself(tmp_path):
    played = perform("CrewAI", stuck, tmp_path)
    assert (played.calls, played.refused) == (5, 0)
    assert "ToolExecutionFailedError" in played.errors


@pytest.mark.env("c")
@pytest.mark.parametrize(
    ("toml", "refused"), [("", 9), ("block_status = 400", 3)], ids=["429", "400"]
)
def test_crewai_begins_a_refused_task_anew_twice(tmp_path, toml, refused):
    played = perform(
        "CrewAI",
        circling,
        tmp_path,
        toml,
        without="max_retry_limit=0",
        instead="max_retry_limit=2",
    )
    assert (played.calls, played.refused) == (18, refused)
    assert played.last.startswith("stopped: Blocked (recursive_loop_detected): ")
