"""A gateway on a busy day: traffic and incidents behind it, four loops before it."""

import math
import time
from contextlib import chdir, contextmanager
from dataclasses import dataclass, replace

from tests.browser.agent import CYCLE, READ, TESTS, Agent, honest
from tests.browser.serving import watched

from looptrap.incident.history import IncidentHistory
from looptrap.incident.model import Incident, IncidentStep
from looptrap.incident.setting import IncidentSettings
from looptrap.testing import Reply, Tokens
from looptrap.usage.call_log import CallFilter, CallRow
from looptrap.usage.model import SessionKey, SessionUsage, UsageBatch, UsageKey, UsageTotals

MINUTE = 60
DAY = 86_400
CENT = 10_000_000
"""Nano-dollars."""

TOML = """
capture = "digests"

[[providers]]
name = "openai"
base_url = "{url}/v1"

[[routes]]
select = { path_prefix = "/v1/chat/" }
chain = ["openai"]

[[projects]]
name = "research"
keys = ["crawler"]
detection = "shadow"

[[projects]]
name = "platform"
keys = ["ci-fixer", "support-bot"]

[[budgets]]
name = "one-run"
by = ["session"]
limit_usd = 5
period = "1d"

[tools.poll_job]
thresholds = { warn = 20, block = 60 }

[[channels]]
name = "on-call"
kind = "webhook"
url = "{url}/hook"
events = ["loop.*", "budget.*"]
allow_private = true
allow_http = true
"""


TASK = "The pump reports the wrong state. " * 2_000
"""As long as what agents are told at first."""


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of the dashboard, what is done there, and what is seen once that is done."""

    name: str
    place: str
    shows: str
    fills: tuple[tuple[str, str], ...] = ()
    presses: tuple[str, ...] = ()
    height: int = 0
    """So much of it is in the picture for readers; 0 for none."""
    begins: str = "body"
    """Where that picture begins."""


SETTINGS = "/settings?project=platform"
INCIDENT = "/incidents/{id}"
RULE = "/settings?part=policies&rule=same-error"

PAGES = [
    Page(name="overview", place="/?range=1h", shows=".incident-list li .mini-strip", height=1_000),
    Page(name="incidents", place="/incidents?state=all", shows="tbody tr:nth-child(8)", height=640),
    Page(
        name="groups",
        place="/incidents?state=all&range=custom&group=caller,rule,model",
        shows="tbody tr:nth-child(8)",
    ),
    Page(
        name="close",
        place="/incidents",
        shows="dialog .consequences:has-text('4 incidents')",
        presses=("Close all …",),
    ),
    Page(name="incident", place=INCIDENT, shows=".strip-cells .cell", height=860),
    Page(name="release", place=INCIDENT, shows="dialog", presses=("Release …",)),
    Page(name="kill-switch", place=INCIDENT, shows="dialog", presses=("Kill switch …",)),
    Page(name="calls", place="/calls?range=24h", shows="tbody tr:nth-child(20)", height=900),
    Page(name="call", place="/calls/{call}", shows=".fact-list dd"),
    Page(name="callers", place="/callers", shows="tbody tr"),
    Page(name="caller", place="/callers/key%3Aci-fixer", shows="tbody tr", height=900),
    Page(
        name="session",
        place="/callers/key%3Aci-fixer/sessions/build-7741",
        shows="tbody tr",
    ),
    Page(name="cost", place="/callers?by=model&range=custom", shows=".chart-frame canvas"),
    Page(name="budgets", place="/callers?by=budgets", shows=".accounts li"),
    Page(name="sessions", place="/callers?by=session&order=burn", shows="tbody tr", height=760),
    Page(name="settings", place=SETTINGS, shows="main form"),
    Page(
        name="what-if",
        place=SETTINGS,
        shows="table.compared",
        fills=(("Threshold", "12"),),
        presses=("Try on captured calls",),
        height=780,
        begins="section[aria-labelledby=what-if]",
    ),
    Page(name="tools", place="/settings?part=tools", shows="tbody tr"),
    Page(name="rules", place="/settings?part=policies", shows=".rules li"),
    Page(name="rule", place=RULE, shows=".as-toml", height=700),
    Page(name="keys", place="/settings?part=keys", shows="tbody tr"),
    Page(
        name="key", place="/settings?part=keys", shows="dialog", presses=("Rotate … support-bot",)
    ),
    Page(name="limits", place="/settings?part=budgets", shows="tbody tr"),
    Page(name="changes", place="/settings?part=changes", shows="tbody tr"),
    Page(
        name="try",
        place="/try",
        shows=".strip-cells .cell",
        presses=("An agent in a cycle",),
        height=880,
    ),
    Page(name="alerts", place="/alerts", shows="tbody tr", height=760),
    Page(name="status", place="/status", shows="main .card", height=860),
]


@contextmanager
def scene(folder):
    """Serve it, and yield the gateway and its pages."""
    remember(folder / "looptrap.db", time.time())
    flags = {"upstream": None, "history": "looptrap.db", "capture_dir": "calls"}
    # What is set is shown: paths of this machine are not what readers should see.
    with chdir(folder), watched(folder, TOML, script=answer, **flags) as gateway:
        loop(gateway)
        [shown] = gateway.incidents(session="build-7741")
        refused = CallFilter(session="build-7741", verdict="refused")
        call = gateway.here.app.recorder.history.calls.page(refused).items[0].number
        yield (
            gateway,
            [replace(one, place=one.place.format(id=shown.id, call=call)) for one in PAGES],
        )


def answer(received):
    """Use as many tokens as the history of a coding agent has."""
    if received.target == "/hook":
        return Reply.status(200, {})
    return Reply.text("I will look at it again.", tokens=Tokens(18_400 + len(received.body), 420))


OPENCODE = "opencode/1.18.33 (linux; x64)"


def loop(gateway):
    """Have four agents go in circles, and one do its work."""
    crawler, fixer, support = (
        gateway.here.add_key(name) for name in ("crawler", "ci-fixer", "support-bot")
    )
    for number in range(3):
        Agent(gateway, f"triage-{number}", key=support, model="gpt-5.4-mini").statuses(honest(4))
    stuck = Agent(gateway, "build-7741", key=fixer, model="gpt-5.4", task=TASK, program=OPENCODE)
    stuck.statuses([*honest(5), *[*CYCLE, TESTS] * 4])
    fixer_two = Agent(gateway, "build-7739", key=fixer, model="gpt-5.4", program=OPENCODE)
    fixer_two.statuses([*honest(2), *[READ] * 9])
    Agent(gateway, "sweep-12", key=crawler, model="claude-opus-4-7").statuses([TESTS] * 7)
    for _ in range(9):
        Agent(gateway, "ticket-881", key=support, model="gpt-5.4-mini", task="Try again.").ask()
    gateway.until(lambda: len(gateway.incidents(state="open")) == 4)
    gateway.change("PUT", "/api/v1/projects/platform", {"threshold": 5})
    gateway.change("PUT", "/api/v1/rules/same-error", {"thresholds": {"warn": 4, "block": 8}})
    gateway.change("PUT", "/api/v1/budgets/one-run", {"limit_usd": 12.5})
    gateway.change("POST", "/api/v1/keys/ci-fixer/rotate", {"grace_seconds": 86_400})


def remember(path, now):
    """Write a day of traffic and a week of incidents into a history, with its own writer."""
    history = IncidentHistory(str(path), IncidentSettings())
    history.open()
    history.put(past_incidents(now), spending=past_spending(now), calls=past_calls(now))
    history.close()


CALLERS = [
    ("key:ci-fixer", "platform", "gpt-5.4", 9),
    ("key:support-bot", "platform", "gpt-5.4-mini", 16),
    ("key:crawler", "research", "claude-opus-4-7", 4),
]


def past_spending(now):
    batch = UsageBatch()
    begin = int(now - DAY) // MINUTE * MINUTE
    for minute in range(begin, int(now) // MINUTE * MINUTE, MINUTE):
        wave = 1.2 + math.sin(minute / 4_000) + 0.4 * math.sin(minute / 190)
        for number, (caller, project, model, pace) in enumerate(CALLERS):
            calls = max(1, round(wave * pace))
            stuck = minute // 600 % 23 == 5 + number
            refused = round(calls * 0.7) if stuck else 0
            passed = calls - refused
            shadowed = refused if project == "research" else 0
            batch.spending[minute, UsageKey(caller, project, "openai", model)] = UsageTotals(
                calls=calls,
                refused=refused - shadowed,
                warned=min(passed, 2) if stuck or minute % 17 == 0 else 0,
                shadowed=shadowed,
                input_tokens=passed * 18_000,
                output_tokens=passed * 400,
                cost=passed * (number + 1) * CENT * 2,
                saved=(refused - shadowed) * (number + 1) * CENT * 2,
            )
    for number in range(24):
        caller, project, model, _ = CALLERS[number % 3]
        last = now - number * 900
        batch.sessions[SessionKey(caller, project, f"run-{900 - number}")] = SessionUsage(
            last - 1_200, last, 14 + number, number % 5, 190_000, (30 - number) * CENT, model=model
        )
    return batch


def past_calls(now, number=400):
    """Return calls of the last day, one every few minutes."""
    return [past_call(now - (number - one) * 200, one) for one in range(number)]


def past_call(at, number):
    caller, project, model, _ = CALLERS[number % 3]
    is_refused = number % 11 == 0 and project != "research"
    return CallRow(
        time=at, weight=1, caller=caller, project=project, session=f"run-{900 - number // 40}",
        agent="opencode" if caller == "key:ci-fixer" else "", model=model,
        provider="" if is_refused else "openai", dialect="openai_chat",
        status=429 if is_refused else 200, verdict="block" if is_refused else "allow",
        shadow="block" if number % 11 == 0 and not is_refused else "",
        reason="loop_detected" if number % 11 == 0 else "", policy="default",
        rule="no-progress" if number % 11 == 0 else "",
        input_tokens=0 if is_refused else 18_000 + number * 7,
        output_tokens=0 if is_refused else 400, cached_tokens=0, is_estimated=False,
        cost=0 if is_refused else (number % 3 + 1) * CENT * 2,
        latency=0.002 if is_refused else 1.5 + number % 7, first_byte=None if is_refused else 0.6,
        is_stream=True, is_cut_off=False, request_id=f"lt-past-{number:x}",
    )  # fmt: skip


RULES = [
    ("same-error", "same_error", "run_tests", "run_tests → the same error"),
    ("no-progress", "repeat", "read_file", "read_file brought the same result"),
    ("cycle", "cycle", "", "search_code → read_file → edit_file, 4 times in a row"),
    ("identical-conversation", "conversation", "", "identical request sent 14 times"),
]


def past_incidents(now, number=40):
    """Return incidents that are over, the latest first."""
    return [past_incident(now, one) for one in range(number)]


def past_incident(now, number):
    caller, project, model, _ = CALLERS[number % 3]
    rule, signal, tool, words = RULES[number % 4]
    action = "warn" if number % 5 == 3 else "block"
    is_refused = action == "block" and project != "research"
    opened = now - 5_000 - number * 700
    return Incident(
        id=f"inc_{number:019x}", instance="before", key=f"key-{number}", opened=opened,
        last=opened + 300, closed=opened + 600, alarmed=opened, caller=caller, project=project,
        session=f"run-{900 - number}", model=model, dialect="openai_chat", provider="openai",
        mode="shadow" if project == "research" else "enforce", policy="default", rule=rule,
        signal=signal, tool=tool, action=action, count=5 + number % 9, message=words,
        calls=12 + number % 50, refused=9 + number % 50 if is_refused else 0,
        cost=4 * CENT, priced=2, answered=2, input_tokens=36_000, output_tokens=800,
        steps=[IncidentStep(opened, action, rule, 5), IncidentStep(opened + 600, "closed")],
    )  # fmt: skip
