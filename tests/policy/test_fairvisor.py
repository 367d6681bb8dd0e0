"""Fairvisor bundles load as they are; what is not supported is named, never dropped silently."""

import copy
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.detect.window import Window, WindowKind
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.errors import ConfigError
from looptrap.policy.action import Action, Ladder
from looptrap.policy.fairvisor import METHODS, Bundle, load
from looptrap.policy.kill_switch import KillSwitchMatcher
from looptrap.policy.policy import KillSwitch, Policy, Selector
from looptrap.policy.rate import Rate
from looptrap.policy.rule import Rule

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LATER = "2026-06-02T00:00:00Z"
EARLIER = "2026-05-31T00:00:00Z"


CONFIGS = {
    "token_bucket": {"tokens_per_second": 10, "burst": 20},
    "token_bucket_llm": {"tokens_per_minute": 6_000},
    "cost_based": {"budget": 100, "period": "1d", "staged_actions": []},
}


def limit(
    *keys: str,
    name: str = "rate",
    algorithm: str = "token_bucket",
    match: dict | None = None,
    **config: object,
) -> dict:
    """A rate rule; a setting of its algorithm that is `...` is left out."""
    settings = {**CONFIGS.get(algorithm, {}), **config}
    rule = {
        "name": name,
        "limit_keys": list(keys),
        "algorithm": algorithm,
        "algorithm_config": {key: value for key, value in settings.items() if value is not ...},
    }
    return rule if match is None else {**rule, "match": match}


def rates(*rules: dict, **spec: object) -> tuple[Rate, ...]:
    """The rates that the rules of a policy become."""
    return load(bundle({"rules": list(rules), **spec}), NOW).policies[0].rates


def rule_mistakes(rule: object) -> list[str]:
    found = mistakes(bundle({"rules": [rule]}))
    return [line.removeprefix("policies[0].spec.rules[0]").lstrip(".: ") for line in found]


def bundle(spec: dict | None = None, **settings: object) -> dict:
    """A bundle of one policy that detects loops on `/v1/chat/`, with changes."""
    whole = {
        "selector": {"pathPrefix": "/v1/chat/", "methods": ["POST"]},
        "mode": "enforce",
        "rules": [],
        "loop_detection": {
            "enabled": True,
            "window_seconds": 60,
            "threshold_identical_requests": 10,
            "action": "reject",
            "similarity": "exact",
        },
        **(spec or {}),
    }
    return {"bundle_version": 1, "policies": [{"id": "loops", "spec": whole}], **settings}


def detection(**settings: object) -> dict:
    block = {"enabled": True, "window_seconds": 60, "threshold_identical_requests": 10} | settings
    return {"loop_detection": {key: value for key, value in block.items() if value is not ...}}


def mistakes(content: dict) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(content, NOW)
    return [str(problem) for problem in caught.value.problems]


def test_a_policy_becomes_a_request_rule_and_rates():
    content = bundle(
        {"rules": [limit("header:x-api-key")]},
        issued_at="2026-01-01T00:00:00Z",
        expires_at="2030-01-01T00:00:00Z",
        kill_switches=[],
    )
    assert load(content, NOW) == Bundle(
        policies=(
            Policy(
                name="loops",
                select=Selector(path_prefix="/v1/chat/", methods=("POST",)),
                compat=("fairvisor",),
                rules=(
                    Rule(
                        name="loop-detection",
                        watch="request",
                        by=("caller", "header:x-api-key"),
                        window=Window(60.0, WindowKind.REFRESHED),
                        ladder=Ladder({Action.BLOCK: 10}),
                        retry_after=60.0,
                    ),
                ),
                rates=(Rate(name="rate", by=("header:x-api-key",), rps=10.0, burst=20),),
            ),
        ),
        kill_switches=(),
        warnings=(),
    )


@pytest.mark.parametrize(
    ("action", "expected", "retry_after"),
    [
        (..., Action.BLOCK, 60.0),
        ("reject", Action.BLOCK, 60.0),
        ("throttle", Action.THROTTLE, None),
        ("warn", Action.WARN, None),
    ],
)
def test_actions(action, expected, retry_after):
    (rule,) = load(bundle(detection(action=action)), NOW).policies[0].rules
    assert rule.ladder == Ladder({expected: 10})
    assert rule.retry_after == retry_after


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ({"window_seconds": ...}, "when enabled is true, window_seconds is required"),
        (
            {"threshold_identical_requests": ...},
            "when enabled is true, threshold_identical_requests is required",
        ),
        (
            {"threshold_identical_requests": 1},
            "threshold_identical_requests must be >= 2 (is 1)",
        ),
        (
            {"threshold_identical_requests": 2.5},
            "threshold_identical_requests must be a positive integer (is 2.5)",
        ),
        ({"window_seconds": 0}, "window_seconds must be a positive integer (is 0)"),
        ({"window_seconds": True}, "window_seconds must be a positive integer (is true)"),
        (
            {"window_seconds": 99_999_999},
            "window_seconds must be <= 2592000 here (is 99999999)",
        ),
        ({"action": "block"}, 'action must be one of reject, throttle, warn (is the text "block")'),
        ({"action": ["warn"]}, "action must be one of reject, throttle, warn (is a list)"),
        ({"similarity": "near"}, 'similarity must be exact (is the text "near")'),
        ({"enabled": "yes"}, 'enabled must be a boolean (is the text "yes")'),
    ],
)
def test_says_what_is_wrong_with_loop_detection(settings, mistake):
    assert mistakes(bundle(detection(**settings))) == [
        f"policies[0].spec.loop_detection: {mistake}"
    ]


@pytest.mark.parametrize("block", [{}, {"enabled": False}, {"enabled": False, "action": "x"}])
def test_detection_that_is_not_enabled_is_no_rule(block):
    (policy,) = load(bundle({"loop_detection": block}), NOW).policies
    assert policy.rules == ()


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param(
            {"pathPrefix": "/api"},
            [Selector(path_prefix="/api/", methods=METHODS)],
            id="a prefix ends with a slash, and every method counts where none is named",
        ),
        pytest.param(
            {"pathPrefix": "/"}, [Selector(path_prefix="/", methods=METHODS)], id="everything"
        ),
        pytest.param(
            {"pathExact": "/a", "methods": ["GET"]},
            [Selector(path_exact="/a", methods=("GET",))],
            id="an exact path",
        ),
        pytest.param(
            {"pathExact": "/a", "pathPrefix": "/b/", "methods": ["GET"]},
            [
                Selector(path_prefix="/b/", methods=("GET",)),
                Selector(path_exact="/a", methods=("GET",)),
            ],
            id="either of two, as two policies",
        ),
        pytest.param(
            {"pathExact": "/b/a", "pathPrefix": "/b/", "methods": ["GET"]},
            [Selector(path_prefix="/b/", methods=("GET",))],
            id="an exact path that the prefix covers",
        ),
        pytest.param(
            {"pathPrefix": "/", "methods": ["GET"], "hosts": [" API.Example.com:8080 ", "b.org."]},
            [Selector(path_prefix="/", methods=("GET",), hosts=("api.example.com", "b.org"))],
            id="hosts, without case and port",
        ),
    ],
)
def test_selectors(selector, expected):
    policies = load(bundle({"selector": selector}), NOW).policies
    assert [policy.select for policy in policies] == expected
    assert len({policy.name for policy in policies}) == len(expected)


@pytest.mark.parametrize(
    ("selector", "warning"),
    [
        ({}, "selector: has neither pathExact nor pathPrefix, binds nothing"),
        ({"pathPrefix": "/", "methods": []}, "selector.methods: names no method, binds nothing"),
    ],
)
def test_a_policy_that_binds_nothing_is_named(selector, warning):
    read = load(bundle({"selector": selector}), NOW)
    assert read.policies == ()
    assert read.warnings == (f"policies[0].spec.{warning}",)


def test_counts_by_the_keys_of_every_rule_of_the_policy():
    content = bundle(
        {
            "rules": [limit("header:x-a", "jwt:org"), limit("header:x-a", "query:q", name="b")],
            "fallback_limit": limit("ip:address", name="rest"),
        }
    )
    (rule,) = load(content, NOW).policies[0].rules
    assert rule.by == ("caller", "header:x-a", "jwt:org", "query:q", "ip:address")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(
            limit("jwt:org_id", "header:x-tool-name", tokens_per_second=..., rps=20, burst=40.0),
            {"by": ("jwt:org_id", "header:x-tool-name"), "rps": 20.0, "burst": 40},
            id="calls a second, by claim and header",
        ),
        pytest.param(
            limit("ip:country"), {"by": (), "rps": 10.0, "burst": 20}, id="a key we cannot read"
        ),
        pytest.param(
            limit(rps=1), {"by": (), "rps": 10.0, "burst": 20}, id="tokens_per_second before rps"
        ),
        pytest.param(
            limit(cost_source="header:x-cost", default_cost=3, fixed_cost=7),
            {"by": (), "rps": 10.0, "burst": 20, "cost": "header:x-cost", "default_cost": 3},
            id="a cost in a header",
        ),
        pytest.param(
            limit(cost_source="fixed", default_cost=3, fixed_cost=7),
            {"by": (), "rps": 10.0, "burst": 20, "default_cost": 7},
            id="a cost of its own",
        ),
        pytest.param(
            limit(
                "jwt:org_id",
                algorithm="token_bucket_llm",
                tokens_per_minute=120_000,
                tokens_per_day=2_000_000,
                burst_tokens=150_000,
                default_max_completion=800,
            ),
            {
                "kind": "token_bucket_llm",
                "by": ("jwt:org_id",),
                "tokens_per_minute": 120_000,
                "tokens_per_day": 2_000_000,
                "burst_tokens": 150_000,
                "output_tokens": 800,
            },
            id="tokens a minute and a day",
        ),
        pytest.param(
            limit(algorithm="token_bucket_llm"),
            {"kind": "token_bucket_llm", "by": (), "tokens_per_minute": 6_000},
            id="tokens a minute, and the defaults",
        ),
        pytest.param(
            limit(match={"jwt:plan": "free", "header:x-beta": True, "query:v": 2}),
            {
                "by": (),
                "rps": 10.0,
                "burst": 20,
                "match": (("jwt:plan", "free"), ("header:x-beta", "true"), ("query:v", "2")),
            },
            id="only for some",
        ),
    ],
)
def test_rate_rules_become_rates(rule, expected):
    assert rates(rule) == (Rate(name="rate", **expected),)


FREE, PRO = {"jwt:plan": "free"}, {"jwt:plan": "pro"}


@pytest.mark.parametrize(
    ("rules", "unless"),
    [
        pytest.param([], (), id="there are no rules: it binds all"),
        pytest.param(
            [limit(name="a", match=FREE), limit(name="b", match=PRO)],
            ((("jwt:plan", "free"),), (("jwt:plan", "pro"),)),
            id="rules for some: it binds the others",
        ),
        pytest.param(
            [limit(name="a", match=FREE, algorithm="cost_based")],
            ((("jwt:plan", "free"),),),
            id="a rule that is not enforced binds as well",
        ),
        pytest.param(
            [limit(name="a", match=FREE), limit(name="b")], None, id="a rule for all: it binds none"
        ),
    ],
)
def test_a_fallback_binds_what_no_rule_binds(rules, unless):
    found = rates(*rules, fallback_limit={**limit(), "name": "fallback_limit"})
    fallback = [rate for rate in found if rate.name == "fallback_limit"]
    assert [rate.unless for rate in fallback] == ([] if unless is None else [unless])


def test_a_fallback_has_a_name_where_it_has_none():
    unnamed = {key: value for key, value in limit().items() if key != "name"}
    assert [rate.name for rate in rates(fallback_limit=unnamed)] == ["fallback_limit"]


@pytest.mark.parametrize(
    ("rule", "mistake"),
    [
        (limit(burst=...), "algorithm_config: burst is required, whole number, 1 to 1000000"),
        (
            limit(tokens_per_second=...),
            "algorithm_config: tokens_per_second or rps is required",
        ),
        (limit(tokens_per_second=0), "algorithm_config.tokens_per_second: is 0, must be 0.0001"),
        (limit(burst=1.5), "algorithm_config.burst: is 1.5, must be a whole number"),
        (limit(burst=5), "algorithm_config: burst is 5, must be >= tokens_per_second, 10"),
        (
            limit(cost_source="cookie:a"),
            'algorithm_config: cost_source is the text "cookie:a", must be fixed, header:<name>',
        ),
        (limit(default_cost=0), "algorithm_config.default_cost: is 0, must be more than 0"),
        (
            limit(algorithm="token_bucket_llm", tokens_per_minute=...),
            "algorithm_config: tokens_per_minute is required",
        ),
        (
            limit(algorithm="token_bucket_llm", burst_tokens=5),
            "algorithm_config: burst_tokens is 5, must be >= tokens_per_minute, 6000",
        ),
        (
            limit(algorithm="token_bucket_llm", token_source={"estimator": "exact"}),
            'algorithm_config.token_source: estimator is the text "exact", must be simple_word',
        ),
        (limit(match={"plan": "free"}), 'match.plan: is the text "plan", must be a descriptor key'),
        (limit(match={"jwt:plan": ""}), 'match."jwt:plan": is the text "", must be text, not'),
        (limit(match={"jwt:plan": []}), 'match."jwt:plan": is a list, must be text, not empty'),
        (limit(name="a\nb"), 'name is the text "a\\nb", must be text without line breaks'),
    ],
)
def test_says_what_is_wrong_with_a_rate_rule(rule, mistake):
    (found,) = rule_mistakes(rule)
    assert found.startswith(mistake)


def test_two_rules_of_one_name_are_a_mistake():
    assert mistakes(bundle({"rules": [limit(), limit()]})) == [
        'policies[0].spec.rules[1]: name is the text "rate", as in policies[0].spec.rules[0],'
        " must differ"
    ]


@pytest.mark.parametrize(
    ("spec", "shadow", "mode"),
    [
        ({"mode": "shadow"}, None, "shadow"),
        ({"mode": "enforce"}, None, "enforce"),
        ({"mode": "enforce"}, {"enabled": False}, "enforce"),
        ({"mode": "enforce"}, {"enabled": True, "reason": "r", "expires_at": LATER}, "shadow"),
    ],
    ids=["shadow", "enforce", "global shadow off", "global shadow on"],
)
def test_modes(spec, shadow, mode):
    settings = {} if shadow is None else {"global_shadow": shadow}
    assert load(bundle(spec, **settings), NOW).policies[0].mode == mode


def test_kill_switches_become_ours():
    switches = [
        {"scope_key": "header:x-tenant-id", "scope_value": "tenant-42", "reason": "incident"},
        {"scope_key": "jwt:sub", "scope_value": "u", "route": "/v1/a", "expires_at": LATER},
    ]
    assert load(bundle(kill_switches=switches), NOW).kill_switches == (
        KillSwitch(match=(("header:x-tenant-id", "tenant-42"),), reason="incident"),
        KillSwitch(
            match=(("jwt:sub", "u"),),
            path_exact="/v1/a",
            expires=datetime(2026, 6, 2, tzinfo=UTC),
        ),
    )


@pytest.mark.parametrize(
    ("path", "team", "killed"),
    [
        pytest.param("/v1/a", "red", True, id="that route and value"),
        pytest.param("/v1/a/b", "red", False, id="a route below"),
        pytest.param("/v1/a", "blue", False, id="another value"),
    ],
)
def test_a_kill_switch_with_a_route_refuses_that_route_only(path, team, killed):
    content = bundle(
        kill_switches=[{"scope_key": "header:X-Team", "scope_value": "red", "route": "/v1/a"}]
    )
    (switch,) = load(content, NOW).kill_switches
    call = read(Request(path=path, headers=[(b"x-team", team.encode())]))
    assert KillSwitchMatcher(switch).kills(call, NOW.timestamp()) is killed


def test_an_active_override_spares_everyone_the_kill_switches():
    content = bundle(
        kill_switches=[{"scope_key": "header:x", "scope_value": "y"}],
        kill_switch_override={"enabled": True, "reason": "r", "expires_at": LATER},
    )
    read = load(content, NOW)
    assert read.kill_switches == ()
    assert read.warnings[0].startswith("kill_switch_override: is active, so the kill switches are")


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        pytest.param(
            bundle({"rules": [limit("ip:country")]}),
            "policies[0].spec.rules[0].limit_keys[0]: ip:country is not supported,"
            " counted as empty",
            id="a descriptor",
        ),
        pytest.param(
            bundle({"rules": [limit(name="spend", algorithm="cost_based")]}),
            'policies[0].spec.rules[0]: cost_based "spend" is not enforced yet',
            id="a budget of somebody else's units",
        ),
        pytest.param(
            bundle({"rules": [limit()], "fallback_limit": limit(name="rest")}),
            "policies[0].spec.fallback_limit: never applies, a rule without match binds all",
            id="a fall-back limit that nothing falls back to",
        ),
        pytest.param(
            bundle({"fallback_limit": limit(match={"header:x": "y"})}),
            "policies[0].spec.fallback_limit.match: has no effect",
            id="a fall-back limit for some",
        ),
        pytest.param(
            bundle({"rules": [limit(match={"ip:tor": True})]}),
            'policies[0].spec.rules[0].match."ip:tor": ip:tor is not supported, the rule limits'
            " nothing",
            id="a rule for those whom we cannot tell",
        ),
        pytest.param(
            bundle({"rules": [limit(fixed_cost=0.5)]}),
            "policies[0].spec.rules[0].algorithm_config.fixed_cost: is 0.5, counted as 1",
            id="a part of a call",
        ),
        pytest.param(
            bundle({"rules": [limit(algorithm="token_bucket_llm", max_prompt_tokens=9)]}),
            "policies[0].spec.rules[0].algorithm_config.max_prompt_tokens: is not supported, has"
            " no effect",
            id="a limit for single calls",
        ),
        pytest.param(
            bundle(
                {
                    "rules": [
                        limit(
                            algorithm="token_bucket_llm", token_source={"estimator": "header_hint"}
                        )
                    ]
                }
            ),
            "policies[0].spec.rules[0].algorithm_config.token_source.estimator: header_hint is not"
            " supported, tokens are estimated from the size of the request",
            id="a client's own estimate",
        ),
        pytest.param(
            bundle({"rules": [limit()], "selector": {"pathExact": "/a", "pathPrefix": "/b"}}),
            "policies[0].spec.selector: rates count calls of the exact path and calls under the"
            " prefix apart",
            id="one rate, two selectors",
        ),
        pytest.param(
            bundle({"circuit_breaker": {"enabled": True}}),
            "policies[0].spec.circuit_breaker: is not enforced yet",
            id="a circuit breaker",
        ),
        pytest.param(
            bundle(defaults={"a": 1}), "defaults: is not supported, has no effect", id="defaults"
        ),
        pytest.param(
            bundle({"selector": {"pathPrefix": "/", "headers": {}}}),
            "policies[0].spec.selector.headers: is not supported, has no effect",
            id="a key nobody knows",
        ),
        pytest.param(
            bundle({"selector": {"pathPrefix": "/", "methods": ["GET", 3]}}),
            "policies[0].spec.selector.methods[1]: is 3, no method",
            id="a method that is none",
        ),
        pytest.param(
            bundle(kill_switches=[{"scope_key": "ua:bot", "scope_value": "true"}]),
            "kill_switches[0]: ua:bot is not supported, the switch refuses nothing",
            id="a kill switch we cannot match",
        ),
        pytest.param(
            bundle(global_shadow={"enabled": True, "reason": "r", "expires_at": LATER}),
            "global_shadow: is active, so every policy is read in shadow mode; it is read at"
            f" start only, so start again after {LATER} for it to end",
            id="global shadow",
        ),
    ],
)
def test_names_what_is_not_supported(content, warning):
    assert warning in load(content, NOW).warnings


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ({"policies": []}, "bundle_version is null, must be a positive number"),
        ({"bundle_version": 1}, "policies is null, must be a list"),
        (bundle(expires_at=EARLIER), f"expires_at: is {EARLIER}: the bundle has expired"),
        (
            bundle(issued_at="yesterday"),
            'issued_at: is the text "yesterday", must be YYYY-MM-DDTHH:MM:SSZ (UTC)',
        ),
        (bundle(issued_at=3), "issued_at: is 3, must be YYYY-MM-DDTHH:MM:SSZ (UTC)"),
        (
            bundle(issued_at="2026-02-31T00:00:00Z"),
            'issued_at: is the text "2026-02-31T00:00:00Z", must be YYYY-MM-DDTHH:MM:SSZ (UTC)',
        ),
        (
            bundle(global_shadow={"enabled": True, "reason": "r", "expires_at": EARLIER}),
            f"global_shadow.expires_at: is {EARLIER}: it has expired",
        ),
        (
            bundle(global_shadow={"enabled": True, "expires_at": LATER}),
            "global_shadow: when enabled is true, reason is required: 1 to 256 characters",
        ),
        (
            bundle(kill_switch_override={}),
            "kill_switch_override: enabled is required, and must be a boolean",
        ),
        (
            bundle({"mode": "dry"}),
            'policies[0].spec.mode: is the text "dry", must be enforce or shadow',
        ),
        (bundle({"rules": None}), "policies[0].spec: rules is null, must be a list"),
        (bundle({"selector": None}), "policies[0].spec: selector is null, must be a table"),
        (
            bundle({"selector": {"pathPrefix": "v1"}}),
            'policies[0].spec.selector.pathPrefix: is the text "v1",'
            " must be a path that begins with /",
        ),
        (
            bundle({"selector": {"pathPrefix": "/", "hosts": []}}),
            "policies[0].spec.selector.hosts: must be a non-empty array of hostnames",
        ),
        (
            bundle({"selector": {"pathPrefix": "/", "hosts": ["http://a"]}}),
            'policies[0].spec.selector.hosts[0]: is the text "http://a", must be a hostname',
        ),
        (
            bundle({"rules": [limit("cookie:a")]}),
            'policies[0].spec.rules[0].limit_keys[0]: is the text "cookie:a",'
            " must be a descriptor key",
        ),
        (
            bundle({"rules": [limit(algorithm="leaky")]}),
            'policies[0].spec.rules[0]: algorithm is the text "leaky",'
            " must be token_bucket, cost_based or token_bucket_llm",
        ),
        (
            bundle(kill_switches=[{"scope_key": "caller", "scope_value": "x"}]),
            "kill_switches[0]: scope_key must match (jwt|header|query|ip|ua):[A-Za-z0-9_-]+"
            ' (is the text "caller")',
        ),
        (
            bundle(kill_switches=[{"scope_key": "jwt:a", "scope_value": ""}]),
            'kill_switches[0]: scope_value must be a non-empty string (is the text "")',
        ),
        (
            bundle(policies=[{"id": "a", "spec": {"selector": {}, "rules": []}}] * 2),
            'policies[1]: id is the text "a", as in policies[0], must differ',
        ),
    ],
)
def test_says_what_is_wrong(content, mistake):
    assert mistakes(content) == [mistake]


def test_reports_every_mistake_at_once():
    content = bundle(detection(window_seconds=0, action="x"), bundle_version=0, kill_switches=[3])
    assert len(mistakes(content)) == 4


def _paths(value: object, path: tuple = ()) -> list[tuple]:
    items: list = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [path] + [inner for key, item in items for inner in _paths(item, (*path, key))]


WHOLE = bundle(
    {
        "rules": [
            limit("header:x", match={"header:y": "z"}, cost_source="query:n", default_cost=2),
            limit("jwt:b", name="tokens", algorithm="token_bucket_llm", match={"jwt:c": 1}),
        ],
        "fallback_limit": limit("jwt:a", name="rest"),
        "circuit_breaker": {"enabled": True},
        "selector": {"pathExact": "/a", "pathPrefix": "/b", "methods": ["GET"], "hosts": ["c"]},
    },
    issued_at=EARLIER,
    expires_at=LATER,
    kill_switches=[{"scope_key": "jwt:a", "scope_value": "b", "route": "/", "reason": "r"}],
    global_shadow={"enabled": True, "reason": "r", "expires_at": LATER},
    kill_switch_override={"enabled": True, "reason": "r", "expires_at": LATER},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)


@given(path=st.sampled_from([path for path in _paths(WHOLE) if path]), value=JSON)
def test_any_value_anywhere_is_read_or_refused(path, value):
    content = copy.deepcopy(WHOLE)
    *above, last = path
    holder = content
    for key in above:
        holder = holder[key]
    holder[last] = value
    try:
        read = load(content, NOW)
    except ConfigError as error:
        said = [str(problem) for problem in error.problems]
    else:
        said = list(read.warnings)
    assert said, "the overrides alone are worth a warning"
    assert all(line.isprintable() for line in said)
