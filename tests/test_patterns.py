"""Regular expressions: on no text does one of them take much longer than the text is long.

Every pattern in the source is attacked where it repeats something, in the way it is used.
"""

import re
import signal
import time
from contextlib import contextmanager
from random import Random

import pytest
from fuzz.growth import MOST, TIMES, growth
from fuzz.pattern import Pattern, attacks, computed, patterns, runner

from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.incident.setting import CHANNEL
from looptrap.money.price import Prices, PriceSettings
from looptrap.policy.policy import Selector
from looptrap.policy.select import selects

pytestmark = pytest.mark.slow

SHORT = 256
"""Characters of the shorter texts; the longer ones are eight times as long."""

PATIENCE = 20.0

MADE = {
    "looptrap.admin.call": "ids of calls, written out in the module",
    "looptrap.admin.auth": "a pattern of the schema",
    "looptrap.cli.settings_file": "names of settings, escaped, in the user's own files",
    "looptrap.database.database": "words of SQL, written out in the module, in our own statements",
    "looptrap.incident.setting": "names of events, with `*` as the only wild card",
    "looptrap.gateway.keys": "a pattern of the schema",
    "looptrap.money.price": "names of models, with wild cards",
    "looptrap.policy.fairvisor_part": "a pattern of the schema",
    "looptrap.policy.select": "names of models, with wild cards",
    "looptrap.schema.kind": "a pattern of the schema",
}
"""Modules that compile what is not written out there: no setting is itself a pattern."""


@contextmanager
def bounded():
    """Fail after a while, instead of trying a text again and again for ever."""

    def give_up(*_):
        raise TimeoutError(f"still trying after {PATIENCE} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def worst(pattern, *, tries=2):
    """Return the attack under which a pattern's time grows most, and by how much."""
    found = (0.0, None)
    with bounded():
        for attack in attacks(pattern.compiled, Random(0), tries):
            for method in pattern.methods:
                use = runner(pattern.compiled, method)
                ratio = growth(use, attack.text, size=SHORT)
                if ratio > MOST:  # once more: somebody else may have had the processor
                    ratio = min(ratio, growth(use, attack.text, size=SHORT, rounds=9))
                found = max(found, (ratio, attack), key=lambda one: one[0])
    return found


EVERY = list(patterns())


def test_all_patterns_are_found():
    places = {pattern.place for pattern in EVERY}
    assert len(places) >= 90
    assert {
        "looptrap.wire.request.FIELD_LINE",
        "looptrap.detect.canonical._VOLATILE",
        "looptrap.retry.failure._duration",
        "looptrap.dialect.stream._BRACE",
    } <= places
    assert all(pattern.methods for pattern in EVERY)


@pytest.mark.parametrize(
    "pattern", EVERY, ids=lambda pattern: pattern.place.removeprefix("looptrap.")
)
def test_time_grows_with_the_text_and_no_faster(pattern):
    ratio, attack = worst(pattern)
    assert ratio <= MOST, f"{TIMES} times the text takes {ratio:.0f} times as long: {attack}"


@pytest.mark.parametrize(
    ("text", "method"),
    [
        (r"(a+)+b", "match"),
        (r"(?:a|a?)+b", "match"),
        (r"\s+\Z", "search"),
        (rb"x*x*x*y", "fullmatch"),
        (r"^(`{3,}).*?^\1$", "sub"),
    ],
    ids=["nested", "ambiguous", "from every start", "side by side", "back-references"],
)
def test_the_check_itself_finds_bad_ones(text, method, monkeypatch):
    monkeypatch.setattr("tests.test_patterns.PATIENCE", 0.5)
    pattern = Pattern("here", re.compile(text, re.MULTILINE | re.DOTALL), (method,))
    try:
        ratio, _ = worst(pattern, tries=3)
    except TimeoutError:
        return
    assert ratio > MOST


def test_patterns_that_are_made_at_run_time_are_known():
    assert set(computed()) == set(MADE)


WILD = "*a" * 40 + "b"


def model(size):
    return "a" * size


@pytest.mark.parametrize(
    "match",
    [
        pytest.param(lambda: _selects(WILD), id="models of a selector"),
        pytest.param(lambda: _prices(WILD), id="models with prices"),
    ],
)
def test_wild_cards_of_operators_do_not_make_clients_slow(match):
    use = match()
    with bounded():
        assert growth(use, model, size=SHORT) <= MOST


def _selects(wild):
    select = selects(Selector(models=(wild,)))

    def use(name):
        body = b'{"model":"%b","messages":[]}' % name.encode()
        return select(read(Request(path="/v1/chat/completions", body=body)))

    return use


def _prices(wild):
    prices = Prices({wild: PriceSettings(input=1.0, output=1.0)})
    return lambda name: prices.of(name, "openai", time.time())


def test_channels_take_no_pattern_but_names_with_a_star():
    [events] = [field for field in CHANNEL.fields if field.name == "events"]
    problems = []
    events.kind.read(["(a+)+"], "channels[0].events", problems)
    assert problems
