"""Breakers by provider and by credential."""

import msgspec
import pytest

from looptrap.errors import ConfigError
from looptrap.retry.breaker import (
    Breakers,
    CircuitChange,
    CircuitKey,
    CircuitOpening,
    Source,
    opening_from_change,
)
from looptrap.retry.failure import Failure

DOWN = Failure("server", "http_503", trips="provider")
LIMITED = Failure("rate_limit", "rate_limited", trips="credential")
SPENT = Failure("permanent", "insufficient_quota", trips="credential")
WRONG = Failure("permanent", "http_400")


def fail(breakers, failure, credential="mine", times=5, now=0.0):
    changes = ()
    for _ in range(times):
        changes = breakers.allow("openai", credential, now).done(failure, now)
    return changes


def test_an_outage_closes_the_road_for_all():
    breakers = Breakers()
    assert fail(breakers, DOWN) == (CircuitChange(CircuitKey("openai"), "open", 60.0),)
    assert breakers.allow("openai", "mine", 1.0) is None
    assert breakers.allow("openai", "theirs", 1.0) is None
    assert breakers.allow("anthropic", "mine", 1.0) is not None


def of(caller, conversation="main"):
    return Source(caller, lambda: conversation)


def failed_by(breakers, *sources, failure=DOWN, now=0.0):
    for source in sources:
        permit = breakers.allow("openai", "shared", now, source)
        if permit is not None:
            permit.done(failure, now)


ONE, SECOND, THIRD, OTHER, ELSE = every = [
    of("one", "a"), of("one", "b"), of("one", "c"), of("other"), of("else"),
]  # fmt: skip
REFUSED = Failure("server", "connection", trips="provider")


@pytest.mark.parametrize(
    ("sources", "failure", "passing"),
    [
        pytest.param([ONE] * 5, DOWN, [SECOND, THIRD, OTHER, ELSE], id="one conversation"),
        pytest.param([ONE] * 4 + [SECOND], DOWN, [OTHER, ELSE], id="two of one caller"),
        pytest.param([ONE] * 4 + [OTHER], DOWN, [], id="two callers"),
        pytest.param(
            [ONE] * 5 + [OTHER] * 4, DOWN, [SECOND, THIRD, OTHER, ELSE], id="others, not as often"
        ),
        pytest.param([ONE] * 5 + [OTHER] * 5, DOWN, [], id="others as often"),
        pytest.param([ONE] * 5, REFUSED, [], id="no connection"),
        pytest.param([ONE] * 4 + [None], DOWN, [], id="one without a source"),
    ],
)
def test_an_opening_is_for_those_who_failed_unless_they_are_several(sources, failure, passing):
    breakers = Breakers()
    failed_by(breakers, *sources, failure=failure)
    assert [one for one in every if _passes(breakers, one)] == passing
    for one in every:
        left = breakers.retry_after("openai", "shared", 1.0, one)
        assert left == (0.0 if one in passing else 59.0)


def test_a_success_between_failures_of_others_widens_nothing():
    breakers = Breakers()
    failed_by(breakers, *[ONE] * 5, *[OTHER] * 4)
    breakers.allow("openai", "shared", 0.0, ELSE).done(None, 0.0)
    failed_by(breakers, *[OTHER] * 4)
    assert _passes(breakers, OTHER)
    assert not _passes(breakers, ONE)


def test_a_failed_probe_speaks_for_its_caller_alone():
    breakers = Breakers()
    failed_by(breakers, *[ONE] * 4, OTHER)
    probe = breakers.allow("openai", "shared", 60.0, ONE)
    assert probe.is_probe
    probe.done(DOWN, 60.0)
    assert not _passes(breakers, SECOND, 61.0)
    assert _passes(breakers, OTHER, 61.0)


def test_instances_tell_each_other_for_whom_a_circuit_opened():
    here, there = Breakers(), Breakers()
    failed_by(here, *[ONE] * 4)
    (change,) = here.allow("openai", "shared", 0.0, SECOND).done(DOWN, 0.0)
    opening = opening_from_change(change)
    assert opening == CircuitOpening(CircuitKey("openai"), 60.0, "one")
    there.learn(opening, 0.0)
    assert (_passes(there, THIRD), _passes(there, OTHER)) == (False, True)
    there.learn(CircuitOpening(CircuitKey("openai"), 60.0, "other"), 0.0)
    assert not _passes(there, ELSE)


def test_an_opening_of_one_conversation_is_no_affair_of_other_instances():
    breakers = Breakers()
    failed_by(breakers, *[ONE] * 4)
    (change,) = breakers.allow("openai", "shared", 0.0, ONE).done(DOWN, 0.0)
    assert (change.state, change.caller, opening_from_change(change)) == ("open", "one", None)


def _passes(breakers, source, now=1.0):
    return breakers.allow("openai", "shared", now, source) is not None


def test_one_tenants_limit_closes_it_for_that_tenant_only():
    breakers = Breakers()
    assert fail(breakers, LIMITED) == (CircuitChange(CircuitKey("openai", "mine"), "open", 60.0),)
    assert breakers.allow("openai", "mine", 1.0) is None
    assert breakers.retry_after("openai", "mine", 20.0) == 40.0
    assert breakers.allow("openai", "theirs", 1.0) is not None
    assert breakers.retry_after("openai", "theirs", 20.0) == 0.0


@pytest.mark.parametrize(
    ("failure", "asked", "expected"),
    [
        pytest.param(LIMITED, None, 60.0, id="a limit that names no time"),
        pytest.param(LIMITED, 7.0, 7.0, id="a limit that does"),
        pytest.param(LIMITED, 0.0, 1.0, id="a limit that ends at once"),
        pytest.param(LIMITED, 900.0, 60.0, id="a limit that is long"),
        pytest.param(DOWN, 7.0, 60.0, id="a provider in trouble does not know"),
    ],
)
def test_a_limit_is_left_alone_for_as_long_as_it_names(failure, asked, expected):
    (change,) = fail(Breakers(), msgspec.structs.replace(failure, retry_after=asked))
    assert (change.state, change.seconds) == ("open", expected)


def test_a_short_opening_that_was_set_is_the_least_for_a_limit_too():
    (change,) = fail(Breakers(open_for=0.5), msgspec.structs.replace(LIMITED, retry_after=0.0))
    assert change.seconds == 0.5


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param([], 0.0, id="nothing"),
        pytest.param([LIMITED], 40.0, id="a limit"),
        pytest.param([DOWN], 0.0, id="an outage"),
        pytest.param([LIMITED, DOWN], 0.0, id="a limit, and an outage"),
        pytest.param([SPENT], 0.0, id="a quota that is spent"),
    ],
)
def test_says_how_long_a_limit_lasts_where_it_alone_refuses(failures, expected):
    breakers = Breakers()
    for number, failure in enumerate(failures):
        # Another's credential, so that both circuits can be opened.
        fail(breakers, failure, credential="theirs" if number else "mine")
    assert breakers.limited_for("openai", "mine", 20.0) == expected


def test_a_limit_says_nothing_while_the_provider_is_probed():
    breakers = Breakers()
    fail(breakers, DOWN, credential="theirs")
    breakers.learn(CircuitOpening(CircuitKey("openai", "mine"), 60.0), 30.0)
    assert breakers.state(CircuitKey("openai"), 70.0) == "half_open"
    assert breakers.limited_for("openai", "mine", 70.0) == 0.0


def test_names_are_not_joined_into_others():
    breakers = Breakers()
    fail(breakers, LIMITED, credential="")
    assert breakers.state(CircuitKey("openai", ""), 1.0) == "open"
    assert breakers.state(CircuitKey("openai"), 1.0) == "closed"


def test_permanent_failures_count_for_nothing():
    breakers = Breakers()
    assert fail(breakers, WRONG, times=50) == ()
    fail(breakers, DOWN, times=4)
    fail(breakers, WRONG, times=50)
    assert fail(breakers, DOWN, times=1) != ()


def test_an_outage_says_nothing_about_a_credentials_limit():
    breakers = Breakers()
    fail(breakers, LIMITED, times=4)
    fail(breakers, DOWN, times=4)
    assert [change.key for change in fail(breakers, LIMITED, times=1)] == [
        CircuitKey("openai", "mine")
    ]


def test_a_success_closes_and_says_so():
    breakers = Breakers()
    fail(breakers, DOWN)
    probe = breakers.allow("openai", "mine", 60.0)
    assert probe.is_probe
    assert probe.probed == (CircuitKey("openai"),)
    assert probe.done(None, 61.0) == (CircuitChange(CircuitKey("openai"), "closed"),)
    assert not breakers.allow("openai", "mine", 61.0).is_probe


def test_a_probe_is_handed_back_when_the_other_circuit_refuses():
    breakers = Breakers()
    fail(breakers, LIMITED, now=30.0)
    fail(breakers, DOWN, credential="theirs")
    assert breakers.allow("openai", "mine", 60.0) is None, "the credential's circuit is open"
    assert breakers.allow("openai", "theirs", 60.0).is_probe


def test_a_limit_met_by_a_probe_leaves_the_provider_half_open():
    breakers = Breakers()
    fail(breakers, DOWN)
    breakers.allow("openai", "mine", 60.0).done(LIMITED, 60.0)
    assert breakers.state(CircuitKey("openai"), 60.0) == "half_open"
    assert breakers.allow("openai", "theirs", 60.0).is_probe


def test_an_abandoned_probe_makes_room():
    breakers = Breakers()
    fail(breakers, DOWN)
    breakers.allow("openai", "mine", 60.0).abandon(60.5)
    assert breakers.allow("openai", "mine", 60.5).is_probe


def test_instances_tell_each_other_of_openings():
    here, there = Breakers(), Breakers()
    (change,) = fail(here, DOWN, now=1000.0)
    opening = opening_from_change(change)
    assert opening == CircuitOpening(CircuitKey("openai"), 60.0)
    assert there.learn(opening, 5.0) == CircuitChange(CircuitKey("openai"), "open", 60.0)
    assert there.learn(opening, 5.0) is None, "known already: nobody tells it on"
    assert there.allow("openai", "mine", 64.9) is None
    probe = there.allow("openai", "mine", 65.0)
    probe.deny(65.0)
    assert there.allow("openai", "mine", 65.0) is None
    assert opening_from_change(CircuitChange(CircuitKey("openai"), "closed")) is None


def test_those_used_least_lately_are_forgotten():
    breakers = Breakers(most=4)
    fail(breakers, LIMITED, credential="one")
    for name in ["two", "three", "four"]:
        breakers.allow("openai", name, 1.0)
    assert len(breakers) == 4
    assert breakers.allow("openai", "one", 1.0) is not None
    assert breakers.state(CircuitKey("openai", "four"), 1.0) == "closed"


def test_a_circuit_in_use_is_not_forgotten():
    breakers = Breakers(most=4)
    fail(breakers, LIMITED, credential="one")
    for name in ["two", "three", "four", "five"]:
        assert breakers.allow("openai", "one", 1.0) is None
        breakers.allow("openai", name, 1.0)
    assert breakers.state(CircuitKey("openai", "one"), 1.0) == "open"


def test_a_forgotten_circuits_late_outcome_reaches_nobody():
    breakers = Breakers(threshold=1, most=2)
    late = breakers.allow("openai", "one", 0.0)
    breakers.allow("openai", "two", 0.0)
    late.done(LIMITED, 0.0)
    assert breakers.allow("openai", "one", 0.0) is not None


@pytest.mark.parametrize("settings", [{"most": 1}, {"threshold": 0}, {"open_for": -1}], ids=str)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError):
        Breakers(**settings)
