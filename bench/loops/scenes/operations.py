"""Agents that run services: clusters, infrastructure, records of an API, access."""

from __future__ import annotations

import json
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn
from bench.loops.scenes.scene import end, more
from bench.loops.scenes.world import NOUNS, clock, hexes, person

_SYSTEM = "You run the services of a small company. Use the tools. Report what you did."


def restart(rng: Random) -> list[Run]:
    """A pod crashes after each restart; or one service after the other is restarted."""
    names = rng.sample(NOUNS, 10)
    wanted = f"The service {names[0]} is down since the last release. Bring it back."

    def round_(voice: Voice, name: str, state: str, log: str, at: int) -> list[Turn]:
        pod = f"{name}-{hexes(rng, 10)}-{hexes(rng, 5)}"
        pods = f"NAME READY STATUS RESTARTS AGE\n{pod} {state} {at % 4} {rng.randint(9, 90)}s"
        return [
            Turn(
                voice("check", f"the pods of {name}"),
                (Act("kubectl_get", {"kind": "pods", "selector": f"app={name}"}, pods),),
            ),
            Turn(
                voice("read", "its log"),
                (Act("kubectl_logs", {"pod": pod, "tail": "20"}, f"{clock(40 * at)} {log}"),),
            ),
            Turn(
                voice("do", f"a restart of {name}"),
                (Act("kubectl_delete", {"kind": "pod", "name": pod}, f'pod "{pod}" deleted'),),
            ),
        ]

    voice = Voice(rng)
    loop: list[Turn] = []
    for at in range(more(rng) // 3 + 3):
        loop += round_(
            voice, names[0], "0/1 CrashLoopBackOff", "FATAL config: DATABASE_URL is not set", at
        )
    runs = [Run(wanted, loop, 3, _SYSTEM, "hard")]
    voice = Voice(rng)
    honest: list[Turn] = []
    for at, name in enumerate(names):
        honest += round_(voice, name, "1/1 Running", f"INFO {name} ready, version 2.{at}", at)
    honest.append(end(rng, "all services run with the new certificate"))
    voice = Voice(rng)
    mended: list[Turn] = []
    for at, setting in enumerate(("DATABASE_URL", "CACHE_URL", "QUEUE_NAME", "REGION", "LICENCE")):
        error = f"FATAL config: {setting} is not set"
        mended += round_(voice, names[0], "0/1 CrashLoopBackOff", error, at)[:2]
        given = {"deployment": names[0], "name": setting, "from": f"secret/{names[0]}"}
        call = Act("kubectl_set_env", given, f"deployment.apps/{names[0]} env updated")
        mended.append(Turn(voice("do", setting), (call,)))
    mended += round_(voice, names[0], "1/1 Running", f"INFO {names[0]} ready", 5)[:2]
    mended.append(end(rng, "the service runs again, five settings were missing"))
    runs.append(Run(wanted, mended, None, _SYSTEM, "hard"))
    every = "Restart all services one by one, so that they load the new certificate."
    return [*runs, Run(every, honest, None, _SYSTEM)]


def apply(rng: Random) -> list[Run]:
    """An apply meets the same lock; or each apply gets further than the one before."""
    names = rng.sample(NOUNS, 9)
    wanted = "Apply the plan for staging."

    def lock() -> str:
        return (
            "Error: Error acquiring the state lock\n\nLock Info:\n  ID: 7c1f0a52\n  Path: "
            "staging/terraform.tfstate\n  Operation: OperationTypeApply\n  Who: ci@runner-4\n"
            "  Created: 2026-12-02 07:11:40 UTC\n\nTerraform acquires a state lock to protect the "
            f"state (request {hexes(rng, 8)})."
        )

    voice = Voice(rng, parrot=rng.random() < 0.3)
    begun = [
        Turn(
            voice("read", "the plan"),
            (Act("terraform_plan", {"workspace": "staging"}, "Plan: 9 to add, 0 to change."),),
        )
    ]
    act = {"workspace": "staging", "auto_approve": "true"}
    loop = begun + [
        Turn(
            voice("retry", "the apply"),
            (Act("terraform_apply", act, lock(), 1, 20),),
            wait=rng.choice((2, 10)),
        )
        for _ in range(more(rng) + 1)
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM, "easy")]
    voice = Voice(rng)
    honest = list(begun)
    for at, name in enumerate(names):
        error = f"Error: creating {name}_bucket: quota of region exceeded ({at} of 9 created)"
        honest.append(Turn(voice("run", "the apply"), (Act("terraform_apply", act, error, 1, 30),)))
        asked = {"resource": name, "amount": str(10 + at)}
        honest.append(
            Turn(
                voice("do", f"the quota of {name}"),
                (Act("raise_quota", asked, f"quota of {name} is {10 + at}"),),
            )
        )
    honest.append(Turn("", (Act("terraform_apply", act, "Apply complete! 9 added."),)))
    runs.append(Run(wanted, [*honest, end(rng, "staging is up to date")], None, _SYSTEM, "hard"))
    voice = Voice(rng)
    waits = begun + [
        Turn(voice("retry", "the apply"), (Act("terraform_apply", act, lock(), 1, 20),), wait=400)
        for _ in range(2)
    ]
    waits.append(
        Turn(
            voice("do", "the lock of December"),
            (Act("terraform_unlock", {"id": "7c1f0a52"}, "state unlocked"),),
        )
    )
    waits.append(Turn("", (Act("terraform_apply", act, "Apply complete! 9 added."),)))
    return [
        *runs,
        Run(wanted, [*waits, end(rng, "applied, after the lock was gone")], None, _SYSTEM),
    ]


def record(rng: Random) -> list[Run]:
    """A record is refused for the same field each time; or many records for fields of their own."""
    who = person(rng)
    wanted = f"Create the contract of {who}: starts on the first of March, 1,200 a month."
    error = json.dumps(
        {
            "success": False,
            "errors": [{"field": "start_date", "message": "must be a date in the form YYYY-MM-DD"}],
        }
    )
    dates = (
        "1 March 2027",
        "March 1",
        "01.03.2027",
        "3/1/27",
        "first of March",
        "2027/03/01",
        "1st March 2027",
        "Mar 1, 2027",
        "01-03-2027",
    )
    fields = ["iban", "phone", "postcode", "tax_id", "email"]
    voice = Voice(rng)
    loop = [
        Turn(
            voice("retry", "the contract"),
            (
                Act(
                    "create_contract",
                    {
                        "customer": who,
                        "start_date": rng.choice(dates[:4] if rng.random() < 0.6 else dates),
                        "monthly": rng.choice(("1200", "1200.00")),
                    },
                    error,
                    1,
                ),
            ),
        )
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM)]
    voice = Voice(rng)
    honest: list[Turn] = []
    for at in range(rng.randint(8, 14)):
        other = person(rng)
        args = {"customer": other, "start_date": f"2027-03-{at + 1:02}", "monthly": str(900 + at)}
        for field in rng.sample(fields, rng.choice((0, 1, 1, 2))):
            said = {
                "success": False,
                "errors": [{"field": field, "message": f"{field} is missing"}],
            }
            honest.append(
                Turn(
                    voice("do", f"the contract of {other}"),
                    (Act("create_contract", dict(args), json.dumps(said), 1),),
                )
            )
            args[field] = f"{field}-{rng.randint(1000, 9999)}"
        made = json.dumps({"success": True, "id": f"c_{hexes(rng, 8)}"})
        honest.append(
            Turn(
                voice("do", f"the contract of {other}"), (Act("create_contract", dict(args), made),)
            )
        )
    many = "Create the contracts of the attached list. Look up missing fields in the notes."
    return [*runs, Run(many, [*honest, end(rng, "all contracts exist")], None, _SYSTEM)]


def access(rng: Random) -> list[Run]:
    """Every call is forbidden, whatever it asks for; or a table of what is forbidden is wanted."""
    names = rng.sample(NOUNS, 11)
    verbs = ("GET", "POST", "DELETE")
    error = '{"status": 403, "error": "forbidden", "detail": "token is missing the scope {scope}"}'
    wanted = f"Give me the numbers of {names[0]}s and {names[1]}s of last week."
    voice = Voice(rng)
    asked = [
        {"method": "GET", "path": f"/v{v}/{n}s{tail}"}
        for n in names
        for v in (1, 2)
        for tail in ("", "/count", "?since=2027-01-04", "/export")
    ]
    chosen = rng.sample(asked, min(more(rng) + 3, len(asked)))
    told = error.replace("{scope}", "reports:read")
    loop = [
        Turn(voice("retry", "another path"), (Act("http_request", one, told, 1),)) for one in chosen
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM, "hard")]
    voice = Voice(rng)
    honest = []
    for at, name in enumerate(names):
        for verb in verbs:
            allowed = verb == "GET" or (at + len(verb)) % 3 == 0
            shown = '{"status": 200}' if allowed else error.replace("{scope}", f"{name}s:write")
            call = Act(
                "http_request", {"method": verb, "path": f"/v1/{name}s/1"}, shown, 1 - allowed
            )
            honest.append(Turn(voice("check", f"{verb} on {name}s"), (call,)))
    table = (
        "Test the token of the partner: call each path with GET, POST and DELETE, list the status."
    )
    return [*runs, Run(table, [*honest, end(rng, "the table is below")], None, _SYSTEM, "hard")]


def watch(rng: Random) -> list[Run]:
    """An alert is acknowledged and comes back unchanged; or a night of different alerts."""
    names = rng.sample(NOUNS, 11)
    wanted = "You are on call tonight. Handle alerts; wake nobody if you need not."
    voice = Voice(rng)
    loop: list[Turn] = []
    shown = f'[{{"alert": "disk {names[0]} at 97 %", "state": "firing"}}]'
    for _ in range(more(rng) // 2 + 2):
        loop.append(Turn(voice("check", "the alerts"), (Act("list_alerts", {}, shown),), wait=5))
        act = Act(
            "acknowledge",
            {"alert": f"disk {names[0]}"},
            f'{{"ok": true, "event": "ev_{hexes(rng, 10)}"}}',
        )
        loop.append(Turn(voice("do", "the alert"), (act,), wait=5))
    runs = [Run(wanted, loop, 2, _SYSTEM, "hard")]
    voice = Voice(rng)
    honest: list[Turn] = []
    for name in names:
        honest += [
            Turn(voice("check", "the alerts"), (Act("list_alerts", {}, "[]"),), wait=900)
            for _ in range(rng.randint(1, 3))
        ]
        alert = f'[{{"alert": "latency of {name}", "state": "firing"}}]'
        honest.append(Turn(voice("check", "the alerts"), (Act("list_alerts", {}, alert),), wait=5))
        scaled = Act("scale", {"service": name, "replicas": str(rng.randint(3, 9))}, '{"ok": true}')
        honest.append(Turn(voice("do", f"more replicas of {name}"), (scaled,), wait=300))
    return [
        *runs,
        Run(wanted, [*honest, end(rng, "a quiet end of the night")], None, _SYSTEM, "hard"),
    ]


PLOTS = (
    Plot("crashing", restart, "langgraph claude_code openai_agents/kept mcp adk"),
    Plot("apply", apply, "openai_agents langgraph/trimmed mcp"),
    Plot("record", record, "adk crewai vercel_ai openai_agents/kept n8n"),
    Plot("access", access, "langgraph vercel_ai adk openai_agents"),
    Plot("watch", watch, "n8n mcp openai_agents/kept"),
)
