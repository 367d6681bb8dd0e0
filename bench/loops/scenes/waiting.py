"""Agents that wait: for something that moves, for something slow, or for something that is over."""

from __future__ import annotations

from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn, shell
from bench.loops.scenes.scene import end, look_around, more
from bench.loops.scenes.world import Code, clock, hexes, person


def pipeline(rng: Random) -> list[Run]:
    """A pipeline that has failed is looked at on and on; or one that runs, patiently."""
    code, number = Code(rng), rng.randint(10_000, 99_999)
    wanted = "Push the branch, wait for the pipeline, and tell me when I can merge."
    command = f"gh run view {number}"
    push = Turn("I'll push the branch first.", (shell("git push -u origin HEAD", "branch set up"),))

    def look(voice: Voice, at: int, state: str, wait: float) -> Turn:
        shown = f"{state}\nView this run at https://git.example.com/{code.project}/runs/{number}"
        if rng.random() < 0.5:
            shown += f"\n(refreshed {clock(at)})"
        return Turn(voice("poll", "the pipeline"), (shell(command, shown),), wait=wait)

    over = rng.choice(
        (
            "X main · failed\n  X build in 2m3s (ID 411)\n    X make test\n  - deploy (skipped)",
            "- main · cancelled\n  - build (cancelled by a newer run)",
            "* main · queued\n  * build: no runner matches the labels [self-hosted, gpu]",
        )
    )
    voice = Voice(rng)
    start = [*look_around(rng, code, voice), push]
    count, every = more(rng) + 3, rng.choice((5.0, 10.0, 30.0))
    loop = start + [look(voice, int(every * at), over, every) for at in range(count)]
    runs = [Run(wanted, loop, len(start) + 2)]

    voice = Voice(rng)
    honest = [*look_around(rng, code, voice), push]
    jobs = ["lint", "build", "unit", "integration", "docs", "package", "scan", "deploy"]
    for done in range(len(jobs) * 2 + 1):
        lines = [
            f"  {'✓' if at < done // 2 else '*'} {job}"
            + (f" in {50 + at}s" if at < done // 2 else "")
            for at, job in enumerate(jobs)
        ]
        honest.append(look(voice, done * 60, "* main · running\n" + "\n".join(lines), 60))
    runs.append(Run(wanted, [*honest, end(rng, "the pipeline passed, you can merge")]))

    voice = Voice(rng)
    patient = [*look_around(rng, code, voice), push]
    for at in range(rng.randint(9, 16)):
        shown = f"* main · in progress\n  * build (running for {4 * at + 1}m)"
        act = shell(f"sleep 240; {command}", shown, took=241)
        patient.append(Turn(voice("poll", "the pipeline"), (act,)))
    patient.append(look(voice, 0, "✓ main · passed\n  ✓ build in 48m2s", 1))
    patient.append(end(rng, "the build took 48 minutes and passed"))
    return [*runs, Run(wanted, patient, difficulty="hard")]


def job(rng: Random) -> list[Run]:
    """A job of a service is asked for on and on after its end; or while it moves."""
    id, noun = f"job_{hexes(rng, 10)}", rng.choice(("export", "training", "import", "render"))
    who = person(rng)
    wanted = f"{who} needs the {noun} {id}. Tell me when it is ready and where it is."

    def look(voice: Voice, state: str, wait: float) -> Turn:
        shown = f'{{"job": "{id}", {state}, "request_id": "req_{hexes(rng, 12)}"}}'
        return Turn(
            voice("poll", f"the {noun}"), (Act("get_job_status", {"job_id": id}, shown),), wait=wait
        )

    over = rng.choice(
        (
            '"status": "failed", "error": "source bucket was deleted", "retryable": false',
            '"status": "expired", "expired_at": "2027-01-09T00:00:00Z"',
            '"status": "not_found", "message": "no such job in this workspace"',
        )
    )
    voice = Voice(rng)
    start = [
        Turn(
            voice("search", f"the {noun}s of {who}"),
            (Act("list_jobs", {"owner": who}, f'[{{"job": "{id}", "kind": "{noun}"}}]'),),
        )
    ]
    loop = start + [look(voice, over, rng.choice((2, 5, 15))) for _ in range(more(rng) + 2)]
    runs = [Run(wanted, loop, 3)]
    voice, shown = Voice(rng), 0
    honest = list(start)
    while shown < 100:
        honest.append(look(voice, f'"status": "running", "percent": {shown}', 20))
        shown += rng.choice((0, 3, 4, 6, 9))
    honest.append(look(voice, '"status": "done", "url": "https://files.example.com/x.zip"', 1))
    runs.append(Run(wanted, [*honest, end(rng, f"the {noun} is ready")], difficulty="hard"))
    voice = Voice(rng)
    slow = list(start)
    slow += [look(voice, '"status": "queued"', rng.choice((300, 600))) for _ in range(7)]
    slow += [look(voice, '"status": "running"', 600) for _ in range(6)]
    slow.append(look(voice, '"status": "done", "url": "https://files.example.com/y.zip"', 1))
    return [*runs, Run(wanted, [*slow, end(rng, f"the {noun} is ready")], difficulty="hard")]


def log(rng: Random) -> list[Run]:
    """A log whose last lines stay the same; or one in which requests come in."""
    code = Code(rng)
    command = f"tail -n 4 /var/log/{code.project}/app.log"
    stuck = "\n".join(
        f"2027-01-11T08:5{at}:11Z {text}"
        for at, text in enumerate(
            ("started", "migrations ok", "cache warm", "panic: out of memory")
        )
    )
    wanted = f"Start {code.project} and watch its log for ten minutes after the start."
    voice = Voice(rng)
    start = [
        *look_around(rng, code, voice, 2),
        Turn(voice("run", "the server"), (shell("make serve &", "[1] 4411"),)),
    ]
    loop = start + [
        Turn(voice("check", "the log"), (shell(command, stuck),), wait=4)
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, len(start) + 2)]
    voice = Voice(rng)
    honest = list(start)
    lines = [
        f"{clock(11 * at)} GET /{rng.choice(code.nouns)}s/{rng.randint(1, 900)} 200 "
        f"{rng.randint(2, 90)}ms"
        for at in range(60)
    ]
    for at in range(rng.randint(14, 20)):
        shown = "\n".join(lines[2 * at : 2 * at + 4])
        honest.append(Turn(voice("check", "the log"), (shell(command, shown),), wait=30))
    return [*runs, Run(wanted, [*honest, end(rng, "no errors in ten minutes")])]


def server(rng: Random) -> list[Run]:
    """A server is started, asked and killed, and refuses each time; or changes make it answer."""
    code = Code(rng)
    wanted = f"Start {code.project} locally and show me the first answer of /{code.nouns[0]}s."
    refused = "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused"

    def trial(voice: Voice, output: str, code_: int) -> list[Turn]:
        pid = str(rng.randint(2000, 60_000))
        return [
            Turn(voice("run", "the server"), (shell("make serve & echo $!", pid),)),
            Turn(
                voice("check", "its answer"),
                (shell(f"curl -s localhost:8080/{code.nouns[0]}s", output, code_),),
            ),
            Turn(voice("do", "the cleaning up"), (shell(f"kill {pid}", ""),)),
        ]

    voice = Voice(rng)
    loop = start = look_around(rng, code, voice)
    for _ in range(more(rng) // 3 + 3):
        loop = loop + trial(voice, refused, 7)
    runs = [Run(wanted, loop, len(start) + 3)]
    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for at, noun in enumerate(code.nouns[:5]):
        honest += trial(voice, f'{{"error": "500: {noun} table is missing"}}', 0)
        command = f"psql -c 'create table {noun} (id int, at timestamp)'"
        honest.append(Turn(voice("do", f"the table {noun}"), (shell(command, "CREATE TABLE"),)))
        if at == 4:
            honest += trial(voice, f'[{{"{code.nouns[0]}": 1}}]', 0)
    return [*runs, Run(wanted, [*honest, end(rng, "the server answers")])]


PLOTS = (
    Plot("pipeline", pipeline, "claude_code codex opencode gemini_cli/trimmed openhands"),
    Plot("job", job, "langgraph openai_agents/kept adk mcp n8n/trimmed vercel_ai"),
    Plot("log", log, "codex gemini_cli cline claude_code/elided"),
    Plot("server", server, "mini_swe_agent claude_code opencode"),
)
