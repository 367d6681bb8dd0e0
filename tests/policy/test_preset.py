"""Presets: that they load, say what they are, and are as their systems document them."""

import tomllib
from dataclasses import replace

import pytest

from looptrap.config.setting import CONFIG
from looptrap.detect.window import Window, WindowKind
from looptrap.errors import ConfigError
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.schema import read

FAIRVISOR = Rule(
    name="loop-detection",
    watch="request",
    by=("caller",),
    window=Window(60.0, WindowKind.REFRESHED),
    ladder=Ladder({Action.BLOCK: 4}),
)
ZELYX = Rule(
    name="busy-session",
    watch="session",
    window=Window(60.0, WindowKind.ROLLING),
    ladder=Ladder({Action.WARN: 10}),
)


def with_action(rule: Rule, action: Action, **settings) -> Rule:
    return replace(rule, ladder=Ladder({action: rule.ladder.first}), **settings)


def history(name, watch, **thresholds):
    """A rule of the default preset that reads the history inside a request."""
    ladder = Ladder({Action(action): count for action, count in thresholds.items()})
    return Rule(name=name, watch=watch, ladder=ladder, cooldown=30.0)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        (
            "default",
            Policy(
                name="default",
                rules=(
                    Rule(
                        name="identical-conversation",
                        watch="conversation",
                        similarity="near",
                        by=("caller", "model", "session", "user"),
                        window=Window(15.0, WindowKind.STREAK),
                        ladder=Ladder({Action.BLOCK: 6}),
                        cooldown=30.0,
                        extend=True,
                    ),
                    history("no-progress", "repeat", warn=4, block=5),
                    history("cycle", "cycle", block=3),
                    history("append-loop", "mutating_repeat", warn=4, block=5),
                    history("same-error", "same_error", warn=5, block=7),
                    history("only-failures", "failing", warn=8, block=13),
                    history("near-repeat", "near_repeat", warn=5, block=6),
                    history("noisy-repeat", "noisy_repeat", warn=7, block=10),
                    history("stagnation", "stagnation", warn=6, block=8),
                    history("same-words", "same_words", warn=5, block=8),
                    history("unknown-tool", "unknown_tool", warn=3, block=5),
                    history("monologue", "monologue", warn=3, block=5),
                    history("idle-talk", "idle", warn=6, block=10),
                    history("compaction-loop", "compaction", warn=2, block=3),
                    Rule(name="restart-loop", watch="restart", ladder=Ladder({Action.WARN: 3})),
                    history("turn-budget", "turn_budget", warn=150, block=200),
                    Rule(
                        name="chant",
                        watch="chant",
                        ladder=Ladder({Action.WARN: 4, Action.STOP: 6}),
                    ),
                ),
            ),
        ),
        (
            "aisg",
            Policy(
                name="aisg",
                rules=(
                    Rule(
                        name="identical-conversation",
                        watch="conversation",
                        by=("caller", "model"),
                        parts="content",
                        tail=3,
                        window=Window(60.0, WindowKind.ROLLING),
                        ladder=Ladder({Action.BLOCK: 6}),
                        cooldown=30.0,
                    ),
                ),
            ),
        ),
        (
            "fairvisor",
            Policy(
                name="fairvisor",
                compat=("fairvisor",),
                rules=(with_action(FAIRVISOR, Action.BLOCK, retry_after=60.0),),
            ),
        ),
        (
            "fairvisor-throttle",
            Policy(
                name="fairvisor",
                compat=("fairvisor",),
                rules=(with_action(FAIRVISOR, Action.THROTTLE),),
            ),
        ),
        (
            "fairvisor-warn",
            Policy(
                name="fairvisor",
                compat=("fairvisor",),
                rules=(with_action(FAIRVISOR, Action.WARN),),
            ),
        ),
        (
            "service",
            Policy(
                name="service",
                rules=(
                    Rule(
                        name="same-request",
                        watch="request",
                        by=("caller", "session"),
                        ladder=Ladder({Action.WARN: 4, Action.BLOCK: 6}),
                        cooldown=30.0,
                    ),
                    Rule(
                        name="same-tool-call",
                        watch="tool",
                        by=("caller", "session", "header:mcp-session-id"),
                        ladder=Ladder({Action.WARN: 6, Action.BLOCK: 20}),
                        cooldown=30.0,
                    ),
                ),
            ),
        ),
        ("zelyx", Policy(name="zelyx", rules=(ZELYX,))),
        ("zelyx-block", Policy(name="zelyx", rules=(with_action(ZELYX, Action.BLOCK),))),
        (
            "tcc",
            Policy(
                name="tcc",
                rules=(
                    Rule(
                        name="repeated-call",
                        watch="repeat",
                        parts="calls",
                        rounds=3,
                        ladder=Ladder({Action.NUDGE: 3}),
                    ),
                    Rule(
                        name="turn-budget", watch="turn_budget", ladder=Ladder({Action.BLOCK: 16})
                    ),
                ),
            ),
        ),
    ],
)
def test_is_as_documented(name, policy):
    assert preset.load(name) == (policy,)


def test_there_are_these_presets_and_no_others():
    assert preset.names() == (
        "default", "aisg", "fairvisor", "fairvisor-throttle", "fairvisor-warn", "service", "tcc",
        "zelyx", "zelyx-block",
    )  # fmt: skip


@pytest.mark.parametrize("name", preset.names())
class TestEveryPreset:
    def test_can_be_used_as_a_file_of_ones_own(self, name):
        assert read(CONFIG, tomllib.loads(preset.text(name))).policies == preset.load(name)

    def test_reads_the_same_when_written_back(self, name):
        config = read(CONFIG, tomllib.loads(preset.text(name)))
        assert read(CONFIG, CONFIG.plain(config)) == config

    def test_begins_with_a_sentence(self, name):
        assert preset.text(name).startswith("# ")
        assert preset.summary(name).endswith(".")
        assert preset.summary(name).count("\n") == 0

    def test_explains_itself_in_comments(self, name):
        assert preset.text(name).count("# ") >= 2


@pytest.mark.parametrize("name", ["", "nope", "../default", "default.toml"])
def test_an_unknown_preset_is_a_mistake(name):
    with pytest.raises(ConfigError, match="must be default, aisg, fairvisor"):
        preset.load(name)
