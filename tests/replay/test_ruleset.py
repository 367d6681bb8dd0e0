"""Rulesets survive being written down, as JSON and as a file; scaled and adapted ones too."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.config import load
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy, Project
from looptrap.policy.rule import Rule, ToolRule
from looptrap.replay.ruleset import Ruleset

PROJECT = Project(name="research", keys=("ci",), threshold=9, detection="shadow", cooldown=7)
TOOLS = {
    "poll job": ToolRule(ladder=Ladder({Action.WARN: 20, Action.BLOCK: 60})),
    'a"b': ToolRule(exempt=True),
}


def of_preset(name):
    return Ruleset(policies=preset.load(name), projects=(PROJECT,), tools=TOOLS)


def through_a_file(rules, folder):
    path = folder / "rules.toml"
    path.write_text(rules.toml(), "utf-8")
    return Ruleset.of(load(path, env={}))


@pytest.mark.parametrize("name", preset.names())
def test_what_is_written_is_read_again(name, tmp_path):
    rules = of_preset(name)
    assert Ruleset.read(json.loads(json.dumps(rules.plain()))) == rules
    assert through_a_file(rules, tmp_path) == rules


@pytest.mark.parametrize("name", preset.names())
@pytest.mark.parametrize("action", [None, *(one for one in Action if one is not Action.ALLOW)])
def test_what_holds_for_all_can_be_a_file(name, action, tmp_path):
    rules = of_preset(name).for_all(Project(name="p", action=action, cooldown=5))
    # A cooldown means nothing to what listens, and is not written down there.
    assert through_a_file(rules, tmp_path).plain() == rules.plain()
    assert rules.projects == ()


@given(factor=st.floats(0.5, 2), name=st.sampled_from(preset.names()))
def test_scaled_rules_can_be_written_down_and_reach_their_thresholds(factor, name):
    rules = of_preset(name).scaled(factor)
    assert Ruleset.read(rules.plain()) == rules
    assert all(not 0 < rule.looks_at < rule.ladder.last for _, rule in rules.rules())


def test_no_rule_is_scaled_beyond_what_can_be_looked_at():
    rule = Rule(
        name="r", watch="repeat", rounds=30, ladder=Ladder({Action.WARN: 29, Action.BLOCK: 30})
    )
    [(_, scaled)] = Ruleset(policies=(Policy(name="p", rules=(rule,)),)).scaled(2).rules()
    assert (scaled.rounds, scaled.ladder) == (40, Ladder({Action.WARN: 39, Action.BLOCK: 40}))


@pytest.mark.parametrize("detection", ["off", "shadow"])
def test_nothing_is_done_where_a_project_does_not_detect(detection, tmp_path):
    rules = of_preset("default").for_all(Project(name="p", detection=detection))
    assert rules.policies == ()
    assert through_a_file(rules, tmp_path) == rules
