"""Tales of agents that wait: for jobs, pods, locks and builds."""

from __future__ import annotations

import json
from random import Random

from bench.loops.form import Tool
from bench.loops.tales.coding import repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import retry, wait
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of, shell

OPS = "You are on call for a small platform team. Change nothing that you were not asked to change."
JOBS = (
    Tool("start_job", "Start a job.", ("name",)),
    Tool("job_status", "Get the state of a job.", ("job_id",)),
    Tool("job_log", "Get the log of a job.", ("job_id", "tail")),
    Tool("publish", "Publish the result of a job.", ("job_id", "target")),
)
SERVICES = ("ledger", "ferry", "atlas", "pigeon", "quarry", "lantern", "mosaic", "harrow")
STAGES = ("restore", "compile", "unit", "package", "integration", "scan", "sign", "upload")


def _survey(rng: Random, noise: Noise, count: int) -> list[Round]:
    """Return rounds in which a cluster is looked at; all of them differ."""
    rounds = []
    names = rng.sample(SERVICES, len(SERVICES))
    for number in range(count):
        name = names[number % len(names)]
        command, output = (
            ("kubectl get ns", "\n".join(f"{n}   Active   {rng.randrange(9, 90)}d" for n in names)),
            (
                f"kubectl describe deploy/{name} -n {name} | head -8",
                f"Name: {name}\nReplicas: {rng.randrange(2, 9)} desired\n"
                f"Image: {name}:{noise.hex(7)}",
            ),
            (f"kubectl logs deploy/{name} -n {name} --tail=2", f"{noise.stamp()} {name} listening"),
            (f"helm history {name}", f"REVISION {rng.randrange(3, 40)} deployed {name}-chart"),
        )[number % 4]
        rounds.append(Round(f"Looking at {name}.", [shell(command, output)], note=f"Saw {name}."))
    return rounds


def pending_pod(rng: Random) -> Tale:
    """A pod that stays pending; only its age goes up."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    pod, age = f"{name}-{noise.hex(9)}-{noise.hex(5)}", rng.randrange(20, 60)
    quiet = rng.random() < 0.5

    def make(n: int) -> Round:
        head = "NAME                     READY   STATUS    RESTARTS   AGE\n"
        output = f"{head}{pod}   0/1     Pending   0          {age + 37 * n}s"
        said = "" if quiet else wait(rng)
        return Round(
            said,
            [shell(f"sleep 30 && kubectl get pods -n {name}", output, 0, 30.4)],
            note=f"{name} is pending.",
        )

    return repeat(
        f"Roll out {name} and tell me when it is up.",
        _survey(rng, noise, rng.randrange(2, 8)),
        make,
        rng,
        persona=OPS,
    )


def slow_rollout(rng: Random) -> Tale:
    """The same command with a table that moves, until all replicas are there."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    rounds = _survey(rng, noise, 3)
    ready, total = 0, rng.randrange(14, 24)
    while ready < total:
        ready += rng.choice((0, 1, 1, 1))
        output = (
            f"NAME    READY   UP-TO-DATE   AVAILABLE\n{name}   {ready}/{total}   {total}   {ready}"
        )
        rounds.append(
            Round(
                "Not ready yet, waiting.",
                [shell(f"sleep 20 && kubectl get deploy {name}", output, 0, 20.3)],
                note=f"{ready} of {total} replicas are ready.",
            )
        )
    return Tale(
        f"Roll out {name} and tell me when it is up.",
        [*rounds, Round(f"{name} is up with all {total} replicas.")],
        persona=OPS,
    )


def _state(noise: Noise, job: str, state: str, **more: object) -> str:
    fields = {"job_id": job, "state": state, **more, "checked_at": noise.stamp(30)}
    return json.dumps({**fields, "request_id": f"req_{noise.hex(16)}"})


def stuck_job(rng: Random) -> Tale:
    noise = Noise(rng)
    job, name = f"job-{noise.hex(8)}", rng.choice(SERVICES)
    state = rng.choice(("QUEUED", "RUNNING", "WAITING_FOR_RUNNER"))

    def make(_: int) -> Round:
        deed = Deed("job_status", {"job_id": job}, _state(noise, job, state, percent=40))
        return Round(wait(rng), [deed], pause=rng.uniform(0, 15), note="The job is not done.")

    return repeat(
        f"Rebuild the index of {name} and publish it.",
        _started(rng, noise, job, name),
        make,
        rng,
        tools=JOBS,
        persona=OPS,
    )


def _started(rng: Random, noise: Noise, job: str, name: str) -> list[Round]:
    rounds = []
    for other in rng.sample(SERVICES, rng.randrange(1, 6)):
        old = f"job-{noise.hex(8)}"
        text = _state(noise, old, "SUCCEEDED", name=other, rows=rng.randrange(999))
        rounds.append(
            Round(
                f"How was {other} built?",
                [Deed("job_status", {"job_id": old}, text)],
                note=f"Saw {other}.",
            )
        )
    started = _state(noise, job, "ACCEPTED", name=name)
    rounds.append(Round("Starting the job.", [Deed("start_job", {"name": name}, started)]))
    return rounds


def moving_job(rng: Random) -> Tale:
    """A slow job that is asked for fifteen to thirty times, and gets on."""
    noise = Noise(rng)
    job, name = f"job-{noise.hex(8)}", rng.choice(SERVICES)
    rounds = _started(rng, noise, job, name)
    polls = rng.randrange(15, 31)
    for poll in range(polls):
        done = round(100 * (poll + rng.random()) / polls)
        stage = STAGES[poll * len(STAGES) // polls]
        text = _state(noise, job, "RUNNING", percent=done, stage=stage)
        rounds.append(
            Round(
                wait(rng),
                [Deed("job_status", {"job_id": job}, text)],
                pause=rng.uniform(5, 40),
                note=f"The job is at {done}%.",
            )
        )
    text = _state(noise, job, "SUCCEEDED", rows=rng.randrange(10_000))
    rounds.append(Round("", [Deed("job_status", {"job_id": job}, text)]))
    args = {"job_id": job, "target": "main"}
    rounds.append(Round("Publishing.", [Deed("publish", args, "published")]))
    return Tale(
        f"Rebuild the index of {name} and publish it.",
        [*rounds, Round("The index is rebuilt and published.")],
        tools=JOBS,
        persona=OPS,
    )


def quiet_then_done(rng: Random) -> Tale:
    """Jobs whose state is the same for about ten polls, and which then are done."""
    noise = Noise(rng)
    rounds: list[Round] = []
    names = rng.sample(SERVICES, 3)
    for name, polls in zip(names, (3, 10, 2), strict=True):
        job = f"job-{noise.hex(8)}"
        started = _state(noise, job, "ACCEPTED", name=name)
        rounds.append(Round(f"Now {name}.", [Deed("start_job", {"name": name}, started)]))
        for _ in range(polls):
            text = _state(noise, job, "RUNNING")
            rounds.append(Round("", [Deed("job_status", {"job_id": job}, text)], pause=45))
        text = _state(noise, job, "SUCCEEDED", rows=rng.randrange(10_000))
        rounds.append(Round("", [Deed("job_status", {"job_id": job}, text)], note=f"{name} done."))
        args = {"job_id": job, "target": name}
        rounds.append(Round("", [Deed("publish", args, f"published {name}")]))
    return Tale(
        f"Rebuild and publish {', '.join(names)}.",
        [*rounds, Round("All published.")],
        tools=JOBS,
        persona=OPS,
    )


def unchanged_ci(rng: Random) -> Tale:
    """A build that never gets a runner, watched for ever."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    run = rng.randrange(10**9, 10**10)

    def make(n: int) -> Round:
        output = (
            f"* main {name}-ci · {run}\nTriggered via push about {n + 1} minutes ago\n\nJOBS\n"
            f"* build (ID {run + 7})\n\nWaiting for a runner to pick up this job..."
        )
        said = ("CI is still waiting.", "I'll look at the run again.", "Let me wait a bit.")[n % 3]
        return Round(said, [shell(f"sleep 60; gh run view {run}", output, 0, 61)], note="CI waits.")

    return repeat(
        f"Merge the branch of {name} when its checks are green.",
        _survey(rng, noise, rng.randrange(2, 9)),
        make,
        rng,
        persona=OPS,
    )


def ci_that_gets_on(rng: Random) -> Tale:
    noise, name = Noise(rng), rng.choice(SERVICES)
    run = rng.randrange(10**9, 10**10)
    rounds = _survey(rng, noise, 3)
    for done in range(len(STAGES) + 1):
        for _ in range(rng.randrange(1, 4)):
            lines = [f"{'✓' if n < done else '*'} {s}" for n, s in enumerate(STAGES)]
            output = f"* main {name}-ci · {run}\n\nJOBS\n" + "\n".join(lines)
            rounds.append(
                Round(
                    "Let me wait a bit.",
                    [shell(f"sleep 60; gh run view {run}", output, 0, 61)],
                    note=f"{done} stages are green.",
                )
            )
    rounds.append(Round("Green.", [shell("gh pr merge --squash", "✓ Squashed and merged")]))
    return Tale(
        f"Merge the branch of {name} when its checks are green.",
        [*rounds, Round("Merged.")],
        persona=OPS,
    )


def state_lock(rng: Random) -> Tale:
    """Terraform's state is locked by somebody; the agent applies again and again."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    lock = noise.uuid()
    steps = rng.choice((("apply",), ("plan", "apply"), ("init", "plan", "apply")))

    def make(n: int) -> Round:
        step = steps[n % len(steps)]
        if step == "init":
            return Round("Initialising afresh.", [shell("terraform init -input=false",
                         "Terraform has been successfully initialized!")])  # fmt: skip
        output = (
            "Error: Error acquiring the state lock\n\nLock Info:\n"
            f"  ID:        {lock}\n  Path:      {name}/terraform.tfstate\n  Who:       ci@runner\n"
            f"  Created:   2026-11-02 21:14:09 UTC\n\n"
            f"request {noise.hex(12)} took {noise.seconds()}s"
        )
        deed = shell(f"terraform {step} -input=false", output, 1, 4)
        return Round(retry(rng), [deed], note="Locked.")

    return repeat(
        f"Apply the change of the network to {name}.",
        _survey(rng, noise, rng.randrange(3, 9)),
        make,
        rng,
        len(steps),
        persona=OPS,
    )


def modules_applied(rng: Random) -> Tale:
    """The same three commands for one workspace after the other; one is locked for a while."""
    noise = Noise(rng)
    rounds = _survey(rng, noise, 2)
    for place, name in enumerate(SERVICES):
        rounds.append(
            Round(f"Workspace {name}.", [shell(f"terraform workspace select {name}", "")])
        )
        for _ in range(4 if place == 3 else 0):
            output = f"Error: Error acquiring the state lock\n  ID: {noise.uuid()}"
            rounds.append(
                Round("Locked; waiting.", [shell("terraform apply", output, 1)], pause=30)
            )
        added = rng.randrange(1, 40)
        output = (
            f"Apply complete! Resources: {added} added, {rng.randrange(9)} changed, 0 destroyed."
        )
        rounds.append(Round("", [shell("terraform apply", output, 0, 25)], note=f"Applied {name}."))
        rounds.append(Round("", [shell("terraform plan -detailed-exitcode", "No changes.", 0, 9)]))
    return Tale(
        "Apply the network change to every workspace.",
        [*rounds, Round("All workspaces are up to date.")],
        persona=OPS,
    )


def crash_cycle(rng: Random) -> Tale:
    """Logs, describe, restart, logs, ...: the pod crashes as before."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    error = rng.choice(("missing key SIGNING_SECRET", "cannot parse config.yaml: line 12"))

    def make(n: int) -> Round:
        command, output = (
            (
                f"kubectl logs deploy/{name} --tail=2",
                f"{noise.stamp()} INFO boot {noise.hex(8)}\n{noise.stamp()} FATAL {error}",
            ),
            (
                f"kubectl get pods -l app={name}",
                f"{name}-{noise.hex(9)}-{noise.hex(5)}   0/1   CrashLoopBackOff   {n}   {n}m",
            ),
            (f"kubectl rollout restart deploy/{name}", f"deployment.apps/{name} restarted"),
        )[n % 3]
        said = ("What do the logs say?", "How are the pods?", "A restart may help.")[n % 3]
        return Round(said, [shell(command, output, 0, 6)], note=f"{name} crashes: {error}.")

    return repeat(
        f"{name} does not come up since this morning. Repair it.",
        _survey(rng, noise, rng.randrange(2, 8)),
        make,
        rng,
        3,
        persona=OPS,
    )


def crash_repaired(rng: Random) -> Tale:
    """The same commands, but each restart gets past another error."""
    noise, name = Noise(rng), rng.choice(SERVICES)
    rounds = _survey(rng, noise, 2)
    for key in rng.sample(("SIGNING_SECRET", "DB_URL", "QUEUE", "REGION", "MAIL_FROM", "SALT"), 6):
        log = f"{noise.stamp()} INFO boot {noise.hex(8)}\n{noise.stamp()} FATAL missing key {key}"
        rounds += [
            Round("What do the logs say?", [shell(f"kubectl logs deploy/{name} --tail=2", log)]),
            Round("", [shell(f"kubectl set env deploy/{name} {key}=from-vault",
                             f"deployment.apps/{name} env updated")], note=f"Set {key}."),
            Round("", [shell(f"kubectl rollout restart deploy/{name}",
                             f"deployment.apps/{name} restarted")]),
        ]  # fmt: skip
    return Tale(
        f"{name} does not come up since this morning. Repair it.",
        [*rounds, Round("It is up.")],
        persona=OPS,
    )


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("polling", "pod", pending_pod, "claude-code codex goose", **loop),
        *cases_of("polling", "job", stuck_job, "langgraph openai-agents mastra google-adk crewai",
                  **loop),
        *cases_of("polling", "ci", unchanged_ci, "claude-code gemini-cli opencode", **loop),
        *cases_of("polling", "rollout", slow_rollout, "claude-code codex goose"),
        *cases_of("polling", "moving", moving_job, "langgraph openai-agents mastra crewai"),
        *cases_of("polling", "quiet", quiet_then_done, "langgraph-anthropic google-adk mcp-desktop",
                  difficulty="hard"),
        *cases_of("polling", "stages", ci_that_gets_on, "codex opencode", difficulty="hard"),
        *cases_of("infrastructure", "lock", state_lock, "claude-code codex goose", **loop),
        *cases_of("infrastructure", "crash", crash_cycle, "gemini-cli opencode deepagents", **loop),
        *cases_of("infrastructure", "workspaces", modules_applied, "claude-code goose",
                  difficulty="hard"),
        *cases_of("infrastructure", "keys", crash_repaired, "codex opencode deepagents",
                  difficulty="hard"),
    ]  # fmt: skip
