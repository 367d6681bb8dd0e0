"""Settings of rules, policies, projects and kill switches: what is allowed, and what is said."""

import tomllib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.config.setting import CONFIG, Config
from looptrap.detect.window import Window, WindowKind
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import KillSwitch, Policy, Project, Selector
from looptrap.policy.rule import Rule
from looptrap.schema import read

RULE = {"name": "r", "watch": "conversation", "threshold": 6}


def config(text: str) -> Config:
    return read(CONFIG, tomllib.loads(text))


def mistakes(value: dict) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(CONFIG, value)
    return [str(problem) for problem in caught.value.problems]


def rule_mistakes(**settings: object) -> list[str]:
    rule = {key: value for key, value in (RULE | settings).items() if value is not ...}
    found = mistakes({"policies": [{"name": "p", "rules": [rule]}]})
    assert all(line.startswith("policies[0].rules[0]") for line in found)
    return [line.removeprefix("policies[0].rules[0]").lstrip(".: ") for line in found]


def test_reads_everything_that_can_be_written():
    read_back = config(
        """
        preset = "aisg"
        block_status = 403
        session_headers = ["X-Run"]
        max_fingerprints = 5_000

        [[policies]]
        name = "agents"
        mode = "shadow"
        compat = ["fairvisor"]
        select = { path_prefix = "/v1/", methods = ["post"], hosts = ["API.example.com"], \
            headers = { X-Team = "*" }, models = ["gpt-*"] }

          [[policies.rules]]
          name = "counted"
          watch = "conversation"
          by = ["caller", "header:x-team"]
          similarity = "masked"
          tail = 2
          parts = "content"
          window = 90
          window_kind = "fixed"
          thresholds = { warn = 3, block = 6 }
          cooldown = 12.5
          extend = true
          retry_after = 5
          enabled = false

          [[policies.rules]]
          name = "history"
          watch = "repeat"
          parts = "calls"
          rounds = 3
          threshold = 3
          action = "nudge"

        [[projects]]
        name = "research"
        keys = ["laptop"]
        detection = "shadow"
        threshold = 12
        window = 30
        cooldown = 0
        action = "warn"

        [[kill_switches]]
        match = { caller = "c", "header:x-team" = "red" }
        reason = "leaked"
        expires = 2026-12-01T00:00:00Z
        path_exact = "/v1/models"
        """
    )
    assert read_back == Config(
        preset="aisg",
        block_status=403,
        session_headers=("X-Run",),
        max_fingerprints=5_000,
        policies=(
            Policy(
                name="agents",
                mode="shadow",
                compat=("fairvisor",),
                select=Selector(
                    path_prefix="/v1/",
                    methods=("POST",),
                    hosts=("api.example.com",),
                    headers=(("x-team", "*"),),
                    models=("gpt-*",),
                ),
                rules=(
                    Rule(
                        name="counted",
                        watch="conversation",
                        by=("caller", "header:x-team"),
                        similarity="masked",
                        tail=2,
                        parts="content",
                        window=Window(90.0, WindowKind.FIXED),
                        ladder=Ladder({Action.WARN: 3, Action.BLOCK: 6}),
                        cooldown=12.5,
                        extend=True,
                        retry_after=5.0,
                        enabled=False,
                    ),
                    Rule(
                        name="history",
                        watch="repeat",
                        parts="calls",
                        rounds=3,
                        ladder=Ladder({Action.NUDGE: 3}),
                    ),
                ),
            ),
        ),
        projects=(
            Project(
                name="research",
                keys=("laptop",),
                detection="shadow",
                threshold=12,
                window=30.0,
                cooldown=0.0,
                action=Action.WARN,
            ),
        ),
        kill_switches=(
            KillSwitch(
                match=(("caller", "c"), ("header:x-team", "red")),
                reason="leaked",
                expires=datetime(2026, 12, 1, tzinfo=UTC),
                path_exact="/v1/models",
            ),
        ),
    )


def test_what_is_not_written_is_as_the_rule_itself_has_it():
    (policy,) = config(
        '[[policies]]\nname = "p"\n[[policies.rules]]\nname = "r"\nwatch = "tool"\nthreshold = 4'
    ).policies
    assert policy == Policy(
        name="p",
        rules=(Rule(name="r", watch="tool", ladder=Ladder({Action.BLOCK: 4})),),
    )


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"threshold": 1},
            "threshold: is 1, must be 2 or more (a first call is never a repeat)",
            id="a threshold no repeat reaches",
        ),
        pytest.param(
            {"threshold": 10_001},
            "threshold: is 10001, must be 10000 or less"
            " (hits are counted exactly only up to there)",
            id="a threshold beyond what is counted",
        ),
        pytest.param(
            {"threshold": ...},
            "has neither threshold nor thresholds, needs one of them",
            id="no threshold",
        ),
        pytest.param(
            {"thresholds": {"warn": 3}},
            "has threshold and thresholds, needs one or the other",
            id="threshold and ladder",
        ),
        pytest.param(
            {"threshold": ..., "action": "warn", "thresholds": {"warn": 3}},
            "has action and thresholds, needs one or the other",
            id="action and ladder",
        ),
        pytest.param(
            {"threshold": ..., "thresholds": {"warn": 6, "block": 3}},
            "thresholds: warn = 6 and block = 3: a severer action needs a higher threshold",
            id="a ladder upside down",
        ),
        pytest.param(
            {"action": "allow"},
            'action: is the text "allow", must be "warn", "throttle", "nudge", "stop" or "block"',
            id="an action that does nothing",
        ),
        pytest.param(
            {"watch": "conversations"},
            'watch: is the text "conversations", must be "conversation", "request", "session",'
            ' "tool", "repeat", "cycle", "same_error", "failing", "near_repeat", "mutating_repeat",'
            ' "noisy_repeat", "stagnation", "same_words", "unknown_tool", "monologue", "idle",'
            ' "turn_budget", "compaction",'
            ' "restart" or "chant", did you mean conversation?',
            id="a misspelt scope",
        ),
        pytest.param({"window": 0}, "window: is 0, must be more than 0", id="no window"),
        pytest.param(
            {"window": 2_592_001},
            "window: is 2592001, must be 2592000 or less (30 days)",
            id="a window beyond 30 days",
        ),
        pytest.param(
            {"cooldown": 86_401},
            "cooldown: is 86401, must be 86400 or less (one day)",
            id="a cooldown beyond a day",
        ),
        pytest.param({"cooldown": -1}, "cooldown: is -1, must be 0 or more", id="no such cooldown"),
        pytest.param({"tail": 51}, "tail: is 51, must be 50 or less", id="too long a tail"),
        pytest.param(
            {"watch": "request", "tail": 3},
            'tail: means nothing to watch = "request", only to conversation',
            id="a tail of nothing",
        ),
        pytest.param(
            {"watch": "turn_budget", "window": 60},
            'window: means nothing to watch = "turn_budget", only to'
            " conversation, request, session and tool",
            id="a window over a history",
        ),
        pytest.param(
            {"rounds": 3},
            'rounds: means nothing to watch = "conversation", only to repeat, cycle, same_error,'
            " failing, near_repeat, mutating_repeat, noisy_repeat, stagnation, same_words,"
            " unknown_tool, monologue and idle",
            id="rounds across requests",
        ),
        pytest.param(
            {"parts": "calls"},
            'parts: is "calls", must be "all" or "content" with watch = "conversation"',
            id="parts of another signal",
        ),
        pytest.param(
            {"watch": "repeat", "threshold": 5, "rounds": 4},
            "threshold: is 5, must be 4 or less (no more rounds are looked at)",
            id="more repeats than rounds",
        ),
        pytest.param(
            {"watch": "chant", "action": "nudge"},
            'action: nudge means nothing to watch = "chant"',
            id="too late for an answer",
        ),
        pytest.param(
            {"watch": "tool", "similarity": "near"},
            'similarity: is "near", which means nothing to watch = "tool"',
            id="near what",
        ),
        pytest.param(
            {"watch": "repeat", "threshold": ..., "thresholds": {"warn": 3, "block": 13}},
            "thresholds.block: is 13, must be 12 or less (no more rounds are looked at)",
            id="more repeats than rounds by default",
        ),
        pytest.param(
            {"name": "two words"},
            'name: is the text "two words", must be a name of letters,'
            " digits, '.', '_' and '-', at most 64",
            id="a name no header can carry",
        ),
        pytest.param(
            {"treshold": 3},
            "treshold: is not a setting, did you mean threshold?",
            id="a misspelt setting",
        ),
    ],
)
def test_says_what_is_wrong_with_a_rule(settings, expected):
    assert rule_mistakes(**settings) == [expected]


def test_an_unknown_descriptor_is_a_mistake_with_its_place():
    (mistake,) = rule_mistakes(by=["caller", "modle"])
    assert mistake.startswith("by[1]: ")
    assert "model" in mistake


def test_a_streak_by_session_must_leave_room_for_calls_under_other_sessions():
    streak = {"window_kind": "streak", "by": ["caller", "session"]}
    (mistake,) = rule_mistakes(**streak, threshold=5_001)
    assert "must be 5000 or less to count by session or user" in mistake


def test_a_session_rule_must_leave_room_for_calls_without_a_session():
    (mistake,) = rule_mistakes(watch="session", threshold=1_001)
    assert "must be 1000 or less" in mistake


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(
            {"policies": [{"name": "p", "rules": []}, {"name": "p", "rules": []}]},
            'policies[1].name: is the text "p", as in policies[0], must differ from all others',
            id="two policies of one name",
        ),
        pytest.param(
            {"policies": [{"name": "p", "rules": [RULE, RULE]}]},
            'policies[0].rules[1].name: is the text "r", as in policies[0].rules[0],'
            " must differ from all others",
            id="two rules of one name",
        ),
        pytest.param(
            {"projects": [{"name": "p"}, {"name": "p"}]},
            'projects[1].name: is the text "p", as in projects[0], must differ from all others',
            id="two projects of one name",
        ),
        pytest.param(
            {"policies": [{"name": "p"}]},
            "policies[0]: has neither rules nor rates, needs one of them, or both",
            id="a policy without rules",
        ),
        pytest.param(
            {"policies": [{"name": "p", "rules": [], "select": {"path_prefix": "v1"}}]},
            'policies[0].select.path_prefix: is the text "v1", must be a path that begins with /',
            id="a path without its slash",
        ),
        pytest.param(
            {
                "policies": [
                    {"name": "p", "rules": [], "select": {"path_prefix": "/", "path_exact": "/a"}}
                ]
            },
            "policies[0].select: has path_exact and path_prefix, needs one or the other",
            id="an exact path and a prefix",
        ),
        pytest.param(
            {"policies": [{"name": "p", "rules": [], "select": {"hosts": ["a:80"]}}]},
            'policies[0].select.hosts[0]: is the text "a:80", must be a host name without port',
            id="a host with its port",
        ),
        pytest.param(
            {"kill_switches": [{"match": {}}]},
            "kill_switches[0].match: is empty, must be a table of descriptors and values",
            id="a kill switch for everyone",
        ),
        pytest.param(
            {"kill_switches": [{"match": {"caller": "c"}, "expires": datetime(2026, 1, 1)}]},
            "kill_switches[0].expires: is the time 2026-01-01T00:00:00, must be a date and time"
            " with its offset, such as 2026-12-01T00:00:00Z",
            id="an end in no time zone",
        ),
        pytest.param(
            {"block_status": 503},
            'block_status: is 503, must be "auto", 400, 403, 422 or 429',
            id="a status that clients retry",
        ),
        pytest.param(
            {"session_headers": ["X Session"]},
            'session_headers[0]: is the text "X Session", must be the name of a header',
            id="no header name",
        ),
        pytest.param(
            {"preset": "asig"},
            'preset: is the text "asig", must be default, aisg, fairvisor, fairvisor-throttle,'
            " fairvisor-warn, service, tcc, zelyx or zelyx-block, did you mean aisg?",
            id="a misspelt preset",
        ),
    ],
)
def test_says_what_is_wrong_elsewhere(value, expected):
    assert mistakes(value) == [expected]


SECONDS = st.floats(0, 86_400, exclude_min=True)
SCOPE_RULES = st.fixed_dictionaries(
    {"name": st.just("r"), "watch": st.sampled_from(["conversation", "request", "tool"])},
    optional={
        "by": st.lists(st.sampled_from(["caller", "user", "header:x-a"]), max_size=3),
        "similarity": st.sampled_from(["exact", "masked"]),
        "window": SECONDS,
        "window_kind": st.sampled_from(["rolling", "fixed", "refreshed", "serial"]),
        "cooldown": SECONDS,
        "retry_after": SECONDS,
        "extend": st.booleans(),
        "enabled": st.booleans(),
    },
)
LADDERS = st.fixed_dictionaries(
    {"thresholds": st.just({"warn": 2, "block": 9}) | st.just({"throttle": 4})}
) | st.fixed_dictionaries(
    {"threshold": st.integers(2, 10_000)}, optional={"action": st.sampled_from(["warn", "stop"])}
)


@given(rule=st.builds(lambda rule, ladder: rule | ladder, SCOPE_RULES, LADDERS))
def test_what_is_read_and_written_back_reads_the_same(rule):
    built = read(CONFIG, {"policies": [{"name": "p", "rules": [rule]}]})
    assert read(CONFIG, CONFIG.plain(built)) == built


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"thresholds": {"warn": 3}, "exempt": True}, "tools.poll: is exempt and has thresholds,"),
        ({"thresholds": {"warn": 5, "block": 3}}, "tools.poll.thresholds: warn = 5 and block = 3:"),
        ({"threshold": 3}, "tools.poll.threshold: is not a setting, did you mean thresholds?"),
    ],
)
def test_says_what_is_wrong_with_a_tool(settings, expected):
    assert mistakes({"tools": {"poll": settings}})[0].startswith(expected)


def test_tools_are_read_and_written_back():
    tools = {"poll": {"thresholds": {"warn": 20, "block": 60}, "exempt": False}}
    made = read(CONFIG, {"tools": tools})
    assert made.tools["poll"].ladder == Ladder({Action.WARN: 20, Action.BLOCK: 60})
    assert CONFIG.plain(made)["tools"] == tools
    assert ("tools.poll.exempt", False, "default") in list(made.effective())
