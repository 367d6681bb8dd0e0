"""Loading a configuration: files, layers, where values come from, and warnings."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from looptrap.config import Config, load
from looptrap.errors import ConfigError
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.rule import Rule

NOW = datetime(2026, 6, 1, tzinfo=UTC)
OWN = '[[policies]]\nname = "own"\n[[policies.rules]]\nname = "r"\nwatch = "tool"\nthreshold = 4\n'
AISG = 'preset = "aisg"\n'


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str | bytes, name: str = "looptrap.toml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def mistakes(path: Path | None = None, **layers) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, now=NOW, **layers)
    return [str(problem) for problem in caught.value.problems]


def names(config: Config) -> list[str]:
    return [policy.name for policy in config.policies]


def test_without_anything_the_default_preset_is_in_effect():
    config = load()
    assert config.preset == "default"
    assert config.policies == preset.load("default")
    assert config.block_status == "auto"
    assert config.max_fingerprints == 1_000_000
    assert config.session_headers == ("X-Looptrap-Session", "X-Session-Id", "X-Zelyx-Session-Id")
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("text", "env", "flags", "expected"),
    [
        pytest.param("", {}, {}, "default", id="an empty file leaves the default"),
        pytest.param(AISG, {}, {}, "aisg", id="the file names a preset"),
        pytest.param(AISG, {"LOOPTRAP_PRESET": "tcc"}, {}, "tcc", id="the environment wins"),
        pytest.param(
            AISG,
            {"LOOPTRAP_PRESET": "tcc"},
            {"preset": "zelyx"},
            "zelyx",
            id="a flag wins over all",
        ),
        pytest.param(AISG, {"LOOPTRAP_PRESET": ""}, {}, "aisg", id="an empty variable is not set"),
        pytest.param(AISG, {}, {"preset": None}, "aisg", id="a flag that is not given"),
        pytest.param(OWN, {}, {}, "own", id="own policies replace the default"),
        pytest.param(AISG + OWN, {}, {}, "own", id="own policies replace the preset's"),
        pytest.param(OWN, {}, {"preset": "aisg"}, "own", id="own policies replace a flag's preset"),
    ],
)
def test_which_policies_are_in_effect(write, text, env, flags, expected):
    assert names(load(write(text), env=env, flags=flags)) == [expected]


@pytest.mark.parametrize(
    ("text", "env", "flags", "expected"),
    [
        pytest.param("", {}, {}, "auto", id="default"),
        pytest.param(AISG, {}, {}, 429, id="a preset that is like a published system"),
        pytest.param(AISG, {"LOOPTRAP_BLOCK_STATUS": "auto"}, {}, "auto", id="over a preset"),
        pytest.param("block_status = 400", {}, {}, 400, id="file"),
        pytest.param(
            "block_status = 400", {"LOOPTRAP_BLOCK_STATUS": "403"}, {}, 403, id="variable"
        ),
        pytest.param(
            "block_status = 400",
            {"LOOPTRAP_BLOCK_STATUS": "403"},
            {"block_status": 422},
            422,
            id="flag",
        ),
    ],
)
def test_later_layers_win(write, text, env, flags, expected):
    assert load(write(text), env=env, flags=flags).block_status == expected


@pytest.mark.parametrize(
    ("env", "flags", "warning"),
    [
        ({"LOOPTRAP_PRESET": "aisg"}, {}, "LOOPTRAP_PRESET"),
        ({}, {"preset": "aisg"}, "--preset"),
    ],
)
def test_warns_of_a_preset_that_the_file_overrules(write, env, flags, warning):
    config = load(write(OWN), env=env, flags=flags)
    assert config.preset is None
    line = f"{warning}: aisg has no effect, the file has policies of its own"
    assert config.warnings[0] == line


def test_reports_the_mistakes_of_all_layers_at_once(write):
    found = mistakes(
        write('block_status = 1\nprojects = "none"'),
        env={"LOOPTRAP_BLOCK_STATUS": "teapot", "LOOP_GUARD_MAX_HITS": "many"},
        flags={"preset": "nope"},
    )
    assert [line.partition(":")[0] for line in found] == [
        "block_status", "projects", "LOOPTRAP_BLOCK_STATUS", "--preset", "LOOP_GUARD_MAX_HITS",
    ]  # fmt: skip
    assert found[2] == (
        'LOOPTRAP_BLOCK_STATUS: is the text "teapot", must be "auto", 400, 403, 422 or 429'
    )


class TestLoopGuardVariables:
    """`LOOP_GUARD_*` edit the rule `identical-conversation` of whatever preset is active."""

    @pytest.mark.parametrize("name", ["default", "aisg"])
    def test_edit_window_threshold_and_cooldown(self, name):
        config = load(
            env={
                "LOOPTRAP_PRESET": name,
                "LOOP_GUARD_WINDOW_SECONDS": "120",
                "LOOP_GUARD_MAX_HITS": "9",
                "LOOP_GUARD_COOLDOWN_SECONDS": "7.5",
            }
        )
        rule, *_ = config.policies[0].rules
        assert rule.window.seconds == 120
        assert rule.ladder == Ladder({Action.BLOCK: 10})
        assert rule.cooldown == 7.5
        before, *others = preset.load(name)[0].rules
        assert rule.by == before.by
        assert list(config.policies[0].rules[1:]) == others

    def test_five_hits_mean_that_the_sixth_is_blocked(self):
        rule, *_ = load(env={"LOOP_GUARD_MAX_HITS": "5"}).policies[0].rules
        assert rule.ladder.at(5) is Action.ALLOW
        assert rule.ladder.at(6) is Action.BLOCK

    def test_zero_hits_switch_all_detection_off(self):
        config = load(env={"LOOP_GUARD_MAX_HITS": "0", "LOOPTRAP_PRESET": "tcc"})
        assert [rule.enabled for rule in config.policies[0].rules] == [False, False]
        assert config.warnings == ("LOOP_GUARD_MAX_HITS: is 0, so all detection is off",)

    def test_leave_other_rules_alone_and_say_so(self):
        config = load(env={"LOOP_GUARD_MAX_HITS": "3", "LOOPTRAP_PRESET": "tcc"})
        assert config.policies == preset.load("tcc")
        assert config.warnings == (
            "LOOP_GUARD_MAX_HITS: has no effect, there is no rule identical-conversation",
        )

    @pytest.mark.parametrize(
        ("name", "text", "mistake"),
        [
            ("MAX_HITS", "-1", "is -1, must be 0 or more"),
            ("MAX_HITS", "2.5", "is 2.5, must be a whole number"),
            ("MAX_HITS", "10000", "is 10000, must be 9999 or less"),
            ("WINDOW_SECONDS", "0", "is 0, must be more than 0"),
            ("WINDOW_SECONDS", "nan", "is nan, must be more than 0"),
            ("COOLDOWN_SECONDS", "soon", 'is the text "soon", must be a number'),
        ],
    )
    def test_are_named_when_they_are_wrong(self, name, text, mistake):
        assert mistakes(env={f"LOOP_GUARD_{name}": text}) == [f"LOOP_GUARD_{name}: {mistake}"]


def test_says_where_every_value_came_from(write):
    path = write('block_status = 422\n[[kill_switches]]\nmatch = { caller = "c" }')
    env = {"LOOPTRAP_MAX_FINGERPRINTS": "2000", "LOOP_GUARD_MAX_HITS": "3"}
    config = load(path, env=env, flags={"preset": "aisg"})
    origins = {place: origin for place, _, origin in config.effective()}
    rule = "policies[0].rules[0]"
    assert {
        place: origins[place]
        for place in (
            "preset",
            "block_status",
            "max_fingerprints",
            "session_headers",
            "kill_switches[0].match",
            "kill_switches[0].reason",
            f"{rule}.parts",
            f"{rule}.thresholds",
            f"{rule}.similarity",
        )
    } == {
        "preset": "--preset",
        "block_status": "looptrap.toml",
        "max_fingerprints": "LOOPTRAP_MAX_FINGERPRINTS",
        "session_headers": "default",
        "kill_switches[0].match": "looptrap.toml",
        "kill_switches[0].reason": "default",
        f"{rule}.parts": "preset aisg",
        f"{rule}.thresholds": "LOOP_GUARD_MAX_HITS",
        f"{rule}.similarity": "default",
    }
    assert set(config.origins) <= set(origins) | {f"{rule}.action"}


@pytest.mark.parametrize(
    ("text", "env", "flags", "origin"),
    [
        pytest.param('mode = "shadow"\n', {}, {}, "looptrap.toml", id="file"),
        pytest.param("", {"LOOPTRAP_MODE": "shadow"}, {}, "LOOPTRAP_MODE", id="variable"),
        pytest.param("", {}, {"mode": "shadow"}, "--mode", id="flag"),
    ],
)
def test_everything_can_be_put_into_shadow_at_once(write, text, env, flags, origin):
    purse = '[[budgets]]\nname = "purse"\nlimit_usd = 1.0\n'
    config = load(write(text + purse), env=env, flags=flags)
    assert {one.mode for one in (*config.policies, *config.budgets)} == {"shadow"}
    origins = {place: where for place, _, where in config.effective()}
    assert origins["mode"] == origins["policies[0].mode"] == origins["budgets[0].mode"] == origin


def test_the_effective_values_are_the_ones_in_effect():
    values = {place: value for place, value, _ in load().effective()}
    assert values["policies[0].rules[0].thresholds"] == {"block": 6}
    assert values["policies[0].rules[0].window"] == 15
    assert "policies[0].rules[0].rounds" not in values, "means nothing to a conversation rule"


def test_warns_of_claims_that_nobody_verifies(write):
    text = OWN + 'by = ["caller", "jwt:org_id"]\n[[kill_switches]]\nmatch = { "jwt:sub" = "x" }'
    assert load(write(text)).warnings[:-1] == (
        "policies[0].rules[0].by: jwt:org_id: unverified claims read as empty",
        "kill_switches[0].match: jwt:sub: unverified claims read as empty",
    )


def test_warns_of_a_kill_switch_that_has_expired(write):
    path = write('[[kill_switches]]\nmatch = { caller = "c" }\nexpires = 2026-05-31T00:00:00Z')
    assert load(path, now=NOW).warnings == (
        "kill_switches[0]: expired at 2026-05-31T00:00:00+00:00, refuses nothing",
    )


@pytest.mark.parametrize(
    ("name", "warnings"),
    [
        pytest.param(
            "LOOPTRAP_BLOK_STATUS",
            ("LOOPTRAP_BLOK_STATUS: is not a variable, did you mean LOOPTRAP_BLOCK_STATUS?",),
            id="nearly a setting",
        ),
        pytest.param("LOOPTRAP_SECRET", (), id="somebody else's"),
    ],
)
def test_warns_of_variables_that_are_nearly_right(name, warnings):
    assert load(env={name: "x"}).warnings == warnings


def test_a_project_must_go_together_with_the_policies(write):
    (mistake,) = mistakes(write('preset = "zelyx"\n[[projects]]\nname = "big"\nthreshold = 5000'))
    assert mistake.startswith("projects[0]: policy zelyx: ")
    assert "must be 1000 or less" in mistake


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        pytest.param(
            b"a = 1\nb = = 2",
            "is not valid TOML: Invalid value (at line 2, column 5)",
            id="bad TOML, with line and column",
        ),
        pytest.param(b"a = '\xff'", "is not UTF-8 text: byte 6 is wrong", id="not UTF-8"),
        pytest.param(
            b"a = " + b"[" * 9_999, "is not usable TOML: nested too deeply", id="nested too deeply"
        ),
    ],
)
def test_a_file_that_is_no_toml_is_one_mistake(write, content, mistake):
    path = write(content)
    assert mistakes(path) == [f"{path}: {mistake}"]


def test_a_number_of_a_thousand_digits_is_a_mistake_not_a_crash(write):
    (mistake,) = mistakes(write("block_status = " + "9" * 5_000))
    assert "is not valid TOML" in mistake


def test_a_byte_order_mark_is_no_mistake(write):
    assert load(write(b"\xef\xbb\xbfblock_status = 400")).block_status == 400


def test_a_missing_file_is_one_mistake(tmp_path):
    assert mistakes(tmp_path / "none.toml") == [f"{tmp_path / 'none.toml'}: does not exist"]


def test_a_directory_is_one_mistake(tmp_path):
    assert mistakes(tmp_path) == [f"{tmp_path}: is a directory, must be a file"]


def test_json_files_are_fairvisor_bundles(write):
    bundle = {
        "bundle_version": 1,
        "policies": [
            {
                "id": "loops",
                "spec": {
                    "selector": {"pathPrefix": "/v1/"},
                    "rules": [],
                    "loop_detection": {
                        "enabled": True,
                        "window_seconds": 60,
                        "threshold_identical_requests": 10,
                    },
                },
            }
        ],
        "kill_switches": [{"scope_key": "header:x-team", "scope_value": "red"}],
    }
    config = load(write(json.dumps(bundle), "bundle.json"), env={"LOOPTRAP_BLOCK_STATUS": "403"})
    assert names(config) == ["loops"]
    assert config.preset is None
    assert config.block_status == 403
    assert config.kill_switches[0].match == (("header:x-team", "red"),)
    origins = {place: origin for place, _, origin in config.effective()}
    assert origins["policies[0].rules[0].thresholds"] == "bundle.json"
    assert origins["session_headers"] == "default"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("{", "is not valid JSON: Expecting property name enclosed in double quotes"),
        ("[]", "is a list, must be a table"),
        ("[" * 99_999, "is not usable JSON: nested too deeply"),
    ],
    ids=["cut off", "not an object", "nested too deeply"],
)
def test_a_file_that_is_no_bundle_is_one_mistake(write, text, mistake):
    path = write(text, "bundle.json")
    (found,) = mistakes(path)
    assert found.startswith(f"{path}: {mistake}")


def actions(config: Config) -> set[Action]:
    return {action for one in config.policies for r in one.rules for action, _ in r.ladder.steps}


@pytest.mark.parametrize(
    ("on_loop", "expected"),
    [
        pytest.param(
            "block", {Action.WARN, Action.STOP, Action.BLOCK}, id="block leaves it to the rules"
        ),
        pytest.param("stop", {Action.WARN, Action.STOP}, id="stop sends a final message"),
        pytest.param("notify", {Action.WARN}, id="notify only warns"),
    ],
)
def test_on_loop_says_what_is_done_at_most(on_loop, expected, write):
    config = load(write(""), env={}, flags={"on_loop": on_loop})
    assert expected - actions(config) == set()
    assert not actions(config) & ({Action.STOP, Action.BLOCK} - expected)


def test_on_loop_binds_tools_and_projects_too(write):
    text = 'on_loop = "stop"\n[tools.poll]\nthresholds = { warn = 9, block = 20 }\n'
    text += '[[projects]]\nname = "p"\naction = "block"\n[[projects]]\nname = "q"\n'
    config = load(write(text))
    assert config.tools["poll"].ladder == Ladder({Action.WARN: 9, Action.STOP: 20})
    assert [project.action for project in config.projects] == [Action.STOP, None]
    changed = [place for place, origin in config.origins.items() if origin == "looptrap.toml"]
    assert "tools.poll.thresholds" in changed
    assert any(place.startswith("policies[0].rules[0]") for place in changed)


def rule_of(config: Config, name: str) -> Rule:
    return next(r for one in config.policies for r in one.rules if r.name == name)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param(
            "no-progress", "thresholds = { warn = 6, block = 9 }",
            {"ladder": Ladder({Action.WARN: 6, Action.BLOCK: 9})}, id="other steps",
        ),
        pytest.param(
            "no-progress", "threshold = 8", {"ladder": Ladder({Action.BLOCK: 8})},
            id="another threshold for the severest action",
        ),
        pytest.param(
            "same-error", 'action = "stop"', {"ladder": Ladder({Action.STOP: 7})},
            id="another action at the same count",
        ),
        pytest.param("chant", "enabled = false", {"enabled": False}, id="switched off"),
        pytest.param("identical-conversation", "window = 5", {"cooldown": 30.0}, id="the window"),
    ],
)  # fmt: skip
def test_one_rule_is_changed_and_the_others_stay(write, name, text, expected):
    config = load(write(f'[rules."{name}"]\n{text}\n'))
    changed, before = rule_of(config, name), rule_of(load(), name)
    assert changed != before
    assert {each: getattr(changed, each) for each in expected} == expected
    others = [r for r in config.policies[0].rules if r.name != name]
    assert others == [r for r in load().policies[0].rules if r.name != name]
    assert config.warnings == ()
    places = [place for place, origin in config.origins.items() if origin == "looptrap.toml"]
    assert any(place.startswith("policies[0].rules[") for place in places)


def test_a_rule_of_ones_own_policy_is_changed_too(write):
    config = load(write(OWN + "[rules.r]\nenabled = false\n"))
    assert not rule_of(config, "r").enabled


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        pytest.param(
            "[rules.cylce]\nenabled = false", "rules.cylce: there is no such rule, did you mean"
            " cycle?", id="a name that is nearly right",
        ),
        pytest.param(
            "[rules.x]\nenabled = false", "rules.x: there is no such rule; the rules are"
            " identical-conversation, no-progress,", id="a name that is not known",
        ),
        pytest.param("[rules.cycle]", "rules.cycle: is empty, must say what is different", id="0"),
        pytest.param(
            "[rules.cycle]\nwindow = 3", 'rules.cycle.window: means nothing to watch = "cycle"',
            id="a setting of other rules",
        ),
        pytest.param(
            '[rules."no-progress"]\nthreshold = 40',
            "rules.no-progress.threshold: is 40, must be 12 or less (no more rounds are looked at)",
            id="more than there are rounds",
        ),
        pytest.param(
            "[rules.cycle]\nwatch = 1\nenabled = true", "rules.cycle.watch: is not a setting",
            id="watch",
        ),
        pytest.param("rules = 3", "rules: is 3, must be a table of rules", id="no table"),
    ],
)  # fmt: skip
def test_a_change_that_makes_no_sense_is_a_mistake(write, text, mistake):
    (found,) = mistakes(write(text))
    assert found.startswith(mistake)


@pytest.mark.parametrize(
    ("text", "warns"),
    [
        pytest.param(OWN, True, id="rules of one's own leave the default ones out"),
        pytest.param('preset = "default"\n' + OWN, True, id="although a preset is named"),
        pytest.param("", False, id="the default"),
        pytest.param(AISG, False, id="another preset"),
        pytest.param("policies = []", False, id="nothing on purpose"),
    ],
)
def test_warns_of_policies_that_replace_the_default_rules(write, text, warns):
    warnings = load(write(text)).warnings
    assert any("replace the default rules" in one for one in warnings) is warns
