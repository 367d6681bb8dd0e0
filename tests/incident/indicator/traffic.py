"""A day of agents at work, in simulated time: the same for the same seed."""

from math import cos, pi
from random import Random

from looptrap.incident.indicator import Observation

HOUR, DAY = 3_600.0, 86_400.0
START = 1_800_000_000.0 - 1_800_000_000.0 % DAY
PANE = 10.0
WINDOW = 300.0

TEAMS = {"coding": "alice bob", "research": "carol", "": "anonymous-1 anonymous-2"}
"""Projects with their callers; the last have no project."""

MODELS = {
    ("openai", "gpt-5.3"): 0.8,
    ("anthropic", "claude-opus-4-7"): 1.6,
    ("google", "gemini-3.1-pro"): 0.5,
}
"""Seconds to the first byte, at the median and by night."""


def daylight(time):
    """Return from 0, in the middle of the night, to 1 at noon."""
    return (1 - cos(2 * pi * ((time - START) % DAY) / DAY)) / 2


def session(rng, name, caller, project, start, *, model=("openai", "gpt-5.3"), turns=None):
    """Yield the calls of one agent's run: turns of some tool calls, some of which fail."""
    time = start
    for _ in range(turns or rng.randint(2, 4)):
        tools = 0
        for step in range(rng.randint(4, 9)):
            came = rng.randint(1, 2) if step else 0
            tools = min(tools + came, 14)
            seconds = MODELS.get(model, 1.0) * (1 + daylight(time)) * rng.lognormvariate(0, 0.4)
            yield Observation(
                time, caller, project, name, model[1], model[0], 200, seconds,
                rng.randint(2_000, 4_000), rng.randint(50, 400),
                came, sum(rng.random() < 0.12 for _ in range(came)), tools,
            )  # fmt: skip
            time += seconds + rng.expovariate(1 / 10)
        time += rng.uniform(5, 60)


def marathon(rng, name, start, *, minutes=None, caller="dave", project="nightly"):
    """Yield the calls of a long run whose history grows with every call, with rests in between."""
    time, history = start, rng.randint(3_000, 8_000)
    end = start + 60 * (minutes or rng.uniform(30, 50))
    while time < end:
        yield Observation(
            time, caller, project, name, "gpt-5.3", "openai", 200, 1.0, history, 300, turn_calls=-1
        )
        history += rng.randint(100, 900)
        time += 1 + rng.expovariate(1 / 9) + (rng.uniform(20, 90) if rng.random() < 0.08 else 0)


def day(seed=1, days=1.0, most_a_minute=14.0):
    """Return the calls of a day with its night, bursts at ten and at three, and a new model."""
    rng, calls, number = Random(seed), [], 0
    callers = [(one, team) for team, them in TEAMS.items() for one in them.split()]
    time = START
    while time < START + days * DAY:
        hour = (time - START) % DAY / HOUR
        is_burst = 10 <= hour < 10.25 or 15 <= hour < 15.1
        a_minute = most_a_minute * (0.03 + daylight(time)) * (4 if is_burst else 1)
        time += rng.expovariate(a_minute / 60)
        caller, team = rng.choice(callers)
        model = rng.choice(list(MODELS))
        if hour >= 13 and model[0] == "anthropic":
            model = ("anthropic", "claude-opus-5")  # another, and slower or not: it is new
        number += 1
        calls += session(rng, f"run-{number}", caller, team, time, model=model)
    for number in range(int(40 * days)):
        calls += marathon(rng, f"marathon-{number}", START + days * DAY * number / 40)
    return sorted(calls)


def fired(indicators, calls, until=0.0):
    """Let calls pass in simulated time, and then time itself; return the events as they came."""
    events, waiting = [], []
    now = calls[0].time if calls else START
    for call in calls:
        while call.time >= now + PANE / 2:
            now += PANE / 2
            indicators.observe(waiting)
            waiting = []
            events += indicators.tick(now)
        waiting.append(call)
    indicators.observe(waiting)
    until = max(until, now + 2 * PANE)
    while now < until:
        now += PANE / 2
        events += indicators.tick(now)
    return events
