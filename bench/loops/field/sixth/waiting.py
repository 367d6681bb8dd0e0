"""Waiting: for what is over, for what has failed, for a quota of tomorrow."""

from __future__ import annotations

from bench.loops.field.cast import read, sh, tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import CITIES, HALF, PEOPLE, SERVICES, Project, Voice, do, quiet
from bench.loops.field.wire import Json


@HALF.template("job", "langgraph claude-code responses-kept", "rolling batch")
def job_that_cannot_start(run: Run, way: str) -> None:
    """A pod can never pull its image, and the agent looks at it every half minute."""
    chat = run.chat()
    service, space = run.pick(*SERVICES), run.pick("prod", "staging", "payments", "core")
    tag = f"{run.num(1, 6)}.{run.num(0, 40)}.{run.num(0, 9)}"
    count = run.num(3, 5)
    group = f"{service}-{run.hex(9)}"
    pods = [f"{group}-{run.hex(5)}" for _ in range(count)]
    chat.user(f"Roll out {service} {tag} to {space} and tell me when it is healthy.")
    say = Voice(
        run,
        "<sleep>[Let me|I'll] [wait|give it] [a bit|a moment|30 seconds] and [check|look] again.",
        "[Checking|Let me check] the [rollout|pods|status] [again|now].",
        "<sleep>[Still|It is still] [not ready|in progress]. [Waiting|I'll wait] [more|a little "
        "longer].",
        "<sleep>The [pods|rollout] [need|needs] [some|more] time.",
        empty=0.35,
    )
    image = f"registry.example.net/{space}/{service}:{tag}"
    chat.act(
        f"I'll start with the state of {service}.",
        sh(f"kubectl -n {space} get deploy {service}", f"{service}  {count}/{count}  {count}  41d"),
    )
    quiet(chat, sh(f"kubectl -n {space} get hpa {service}", f"{service}  cpu: 31%/70%  3  9  3"))
    quiet(chat, sh(f"git -C deploy log --oneline -3 {service}", f"{run.hex(7)} {service} {tag}"))
    chat.act(
        "Now the new image.",
        sh(
            f"kubectl -n {space} set image deploy/{service} app={image}",
            f"deployment.apps/{service} image updated",
        ),
    )
    if way == "batch":
        regions = run.some(CITIES, 8)
        for region in regions:
            text = f"{region} next." if run.chance.random() < 0.5 else say()
            chat.act(
                text,
                sh(
                    f"kubectl --context {region.lower()} -n {space} rollout status "
                    f"deploy/{service}",
                    f'Waiting for deployment "{service}" rollout to finish: {run.num(1, 2)} out of '
                    f"{count} new replicas have been updated...\n"
                    f'deployment "{service}" successfully rolled out',
                    takes=run.dec(20, 70),
                ),
            )
            ms = run.num(21, 90)
            quiet(chat, sh(f"curl -s https://{region.lower()}.example.net/healthz", f"ok {ms}ms"))
        chat.say(f"{service} {tag} is healthy in all {len(regions)} regions.")
        return
    stages = ("Pending", "ContainerCreating", "Running", "Running")
    ready = 0
    for number in range(run.num(19, 38)):
        age = int(run.clock) - 20
        if way == LOOP:
            run.wait(20, 35)
            if number == 4:
                run.begin()
            state = run.pick("ImagePullBackOff", "ErrImagePull") if number > 1 else stages[1]
            rows = [f"{pod:34} 0/1     {state:18} 0          {age}s" for pod in pods[:1]]
        else:
            run.wait(10, 30)
            ready += run.pick(0, 0, 1) if number < count * 4 else 1
            ready = min(ready, count)
            rows = [
                f"{pod:34} {int(at < ready)}/1     "
                f"{stages[min(3, number // 2 + (at < ready))]:18} 0"
                f"          {age - at * 7}s"
                for at, pod in enumerate(pods)
            ]
        table = f"{'NAME':34} READY   STATUS             RESTARTS   AGE\n" + "\n".join(rows)
        chosen = run.num(0, 5)
        if way == LOOP and (number == 3 or (number > 3 and chosen == 0)):
            out = (
                f"Events:\n  Warning  Failed  {age}s (x{number} over {age + 20}s)  kubelet  Failed "
                f'to pull image "{image}": rpc error: code = NotFound desc = failed to resolve '
                f"reference: {image}: not found"
            )
            do(chat, say, sh(f"kubectl -n {space} describe pod {pods[0]} | tail -6", out))
        else:
            wait = run.pick("", "", "sleep 30; ", "sleep 20 && ")
            pause = 30.0 if wait else 0.7
            do(
                chat,
                say,
                sh(f"{wait}kubectl -n {space} get pods -l app={service}", table, takes=pause),
            )
        if way != LOOP and ready == count and number > 7:
            break
    if way != LOOP:
        chat.say(f"{service} {tag} is healthy: {count}/{count} replicas.")


@HALF.template("finished", "claude-code opencode gemini-cli", "growing used", difficulty="medium")
def log_that_is_over(run: Run, way: str) -> None:
    """A job in the background has ended, its log says so, and the agent waits for it to end."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    task = run.pick("load test", "nightly import", "docs build", "reindex", "mutation tests")
    log = f"/tmp/{task.replace(' ', '-')}-{run.hex(4)}.log"
    chat.user(f"Start the {task} of {project.name} in the background, wait and sum up the result.")
    project.survey(chat, 3, 6)
    chat.act(
        "Starting it.",
        sh(f"nohup make {task.split()[-1]} > {log} 2>&1 & echo $!", str(run.num(3000, 90000))),
    )
    say = Voice(
        run,
        "<sleep>[Let me|I'll] [wait|sleep] [a bit|a minute|some more] [and check|and look again].",
        "<sleep>[It is|It's] [still running|not finished yet]. [Waiting|I'll wait].",
        "<^read|tail>[Checking|Let me check] the [log|progress|output].",
        "<sleep>[Still|It is still] [working|going]. [I'll check again|Checking again] "
        "[soon|shortly].",
        empty=0.3,
        first="[It is running|Started]. [I'll look|Let me look] at the log.",
    )
    total = run.num(22, 34)
    lines: list[str] = []
    ends = total if way == "growing" else 4
    total = 5 if way == "used" else total
    for number in range(total):
        if number < ends:
            done = min(100, (number + 1) * 100 // ends)
            lines += [
                f"{run.stamp('%H:%M:%S')} step {number * 3 + k + 1}: "
                f"{run.pick(*project.words)} batch {run.hex(4)} ok ({run.num(40, 900)} ms)"
                for k in range(run.num(1, 3))
            ]
            lines.append(f"{run.stamp('%H:%M:%S')} progress {done}%")
            if number == ends - 1:
                lines += [f"{run.stamp('%H:%M:%S')} done, {run.num(2, 9)} warnings", "exit code: 0"]
        elif number == ends + 2:
            run.begin()
        size = run.num(5, 8)
        command = run.pick(
            f"sleep {run.pick(30, 45, 60)}; tail -{size} {log}", f"tail -{size} {log}"
        )
        pause = 45.0 if command.startswith("sleep") else 0.3
        if run.chance.random() < 0.15:
            do(chat, say, read(log, "\n".join(lines)))
        else:
            do(chat, say, sh(command, "\n".join(lines[-size:]), takes=pause))
        run.wait(5, 20)
    if way == "used":
        for word in run.some(project.words, run.num(7, 9)):
            count = run.num(1, 40)
            chat.act(f"Now the {word}s.", sh(f"grep -c '{word} batch' {log}", f"{count}"))
            found = f"{word} batch {run.hex(4)} ok ({run.num(500, 900)} ms)"
            quiet(chat, sh(f"grep '{word} batch' {log} | sort -t'(' -k2 -rn | head -1", found))
    if way != LOOP:
        chat.say(f"The {task} has ended without errors.")


@HALF.template(
    "checks", "anthropic-mcp langgraph openai-agents", "turning fixed", difficulty="medium"
)
def check_that_has_failed(run: Run, way: str) -> None:
    """A required check has failed for good, and the agent waits for it to be green."""
    chat = run.chat()
    repo, number = f"acme/{run.pick(*SERVICES)}", run.num(120, 4800)
    names = run.some(
        ("build", "unit", "lint", "e2e-chrome", "licences", "docs", "sast", "migrations"), 6
    )
    sha = run.hex(40)
    chat.user(f"Merge pull request #{number} of {repo} as soon as all its checks are green.")
    about = {"number": number, "state": "open", "mergeable_state": "blocked", "head": {"sha": sha}}
    at = {"owner": "acme", "repo": repo[5:], "pullNumber": number}
    chat.act("I'll look at the pull request.", tool("get_pull_request", at, about))
    files = [{"filename": f"src/{run.pick(*SERVICES)}/{run.hex(3)}.ts"} for _ in range(3)]
    quiet(chat, tool("get_pull_request_files", at, files))
    reviews = [{"user": run.pick(*PEOPLE), "state": "APPROVED", "submitted_at": run.stamp()}]
    quiet(chat, tool("get_pull_request_reviews", at, reviews))
    say = Voice(
        run,
        "[Let me|I'll] [check|look] [again|once more] [in a minute|now].",
        "[Not|Not all] [green|done] [yet|so far]. [I'll wait|Waiting].",
        "One of the [checks|runs] [is|is still] [not green|outstanding]. [I'll|Let me] "
        "[poll|wait].",
        "[Waiting|I'm waiting] for the [remaining|last] check[|s].",
        empty=0.3,
        first="Now the checks.",
    )
    branch = f"{run.pick('fix', 'feat')}/{run.hex(5)}"
    if way == "fixed":
        for name in run.some(names, run.num(4, 5)):
            bad = {
                "name": name,
                "status": "completed",
                "conclusion": "failure",
                "id": run.num(1, 9**9),
            }
            good = [{"name": n, "conclusion": "success"} for n in names if n != name]
            runs = {"total_count": 6, "check_runs": [*good, bad]}
            do(chat, say, tool("get_check_runs", {**at, "ref": sha}, runs))
            where = f"src/{run.pick(*SERVICES)}/{run.hex(3)}.ts"
            cause = run.pick("'limit' is unused", "timed out", "expected 3, got 2")
            text = f"{run.stamp()} {where}:{run.num(3, 300)} {name} failed: {cause}"
            chat.act(f"{name} fails; why?", tool("get_job_logs", {**at, "job_id": bad["id"]}, text))
            sha = run.hex(40)
            args = {"owner": "acme", "repo": repo[5:], "path": where, "message": f"Fix {name}"}
            args |= {"branch": branch, "content": f"export const limit = {run.num(2, 900)};\n"}
            chat.act(
                "I'll mend that.", tool("create_or_update_file", args, {"commit": {"sha": sha}})
            )
            run.wait(100, 300)
            rows = [{"name": n, "status": run.pick("in_progress", "completed")} for n in names]
            runs = {"total_count": 6, "check_runs": rows}
            do(chat, say, tool("get_check_runs", {**at, "ref": sha}, runs))
            run.wait(60, 200)
        chat.say("All checks are green now.")
        return
    total = run.num(19, 28)
    done = 2
    started = run.stamp()
    for turn in range(total):
        run.wait(30, 90)
        if way == LOOP:
            if turn == 4:
                run.begin()
            done = min(5, 2 + turn)
        elif turn * 6 > done * total:
            done += 1
        table: list[Json] = []
        for place, name in enumerate(names):
            row: Json = {"id": int(sha[:8], 16) + place, "name": name}
            row["status"] = "completed" if place < done else "in_progress"
            row["conclusion"] = "success" if place < done else ""
            row["started_at"] = started
            table.append(row)
        if way == LOOP and done == 5:
            text = f"Process completed with exit code 1. {names[5]}: 3 problems in 2 files"
            table[5] |= {"status": "completed", "conclusion": "failure", "output": text}
        if way != LOOP and done > 5:
            break
        if way != LOOP and turn % 2:
            table[min(done, 5)]["output"] = f"step {turn} of {total}, {run.num(20, 400)} s"
        mood = {"total_count": 6, "check_runs": table}
        if run.chance.random() < 0.2:
            mood = {"state": "pending" if way != LOOP else "failure", "sha": sha, "statuses": table}
            do(chat, say, tool("get_pull_request_status", at, mood))
        else:
            do(chat, say, tool("get_check_runs", {**at, "ref": sha}, mood))
    if way != LOOP:
        merged = {"merged": True, "sha": run.hex(40), "message": "Pull Request merged"}
        chat.act("All are green.", tool("merge_pull_request", at, merged))
        chat.say(f"#{number} is merged.")


@HALF.template("quota", "langgraph crewai gemini-api", "paced", difficulty="easy")
def quota_of_tomorrow(run: Run, way: str) -> None:
    """The quota of a day is used up, which each answer says, and the agent tries again."""
    chat = run.chat()
    cities = run.some(CITIES, 16)
    chat.user(
        "Geocode the addresses in addresses.csv with the tool geocode, and give me the table: "
        + "; ".join(
            f"{run.num(1, 90)} {run.pick('Mill', 'Church', 'Harbour')} St, {c}" for c in cities
        )
    )
    say = Voice(
        run,
        "[Let me|I'll] [try|retry] [that|it] [again|once more] [after a pause|].",
        "[The|This] [service|API] [is limiting|limits] [me|requests]. [Retrying|I'll retry].",
        "[Perhaps|Maybe] [it works now|the limit has been lifted]. [Trying|Let me try] [again|it].",
        "[I'll|Let me] [wait briefly|wait] and [repeat|resend] the [request|call].",
        "[I need|I still need] the [remaining|other] [addresses|coordinates].",
    )
    found = 0
    for city in cities[: run.num(6, 9)] if way == LOOP else cities:
        if way != LOOP and run.chance.random() < 0.25:
            error = {"error": {"code": 429, "message": "Too many requests", "retry_after_s": 2}}
            do(chat, say, tool("geocode", {"address": f"{found}, {city}"}, error, 1))
            run.wait(2, 4)
        found += 1
        out = {"lat": run.dec(36, 60, 5), "lon": run.dec(-9, 25, 5), "confidence": run.dec(0.7, 1)}
        text = f"{city} next." if run.chance.random() < 0.4 else ""
        chat.act(text, tool("geocode", {"address": f"{found}, {city}"}, out, takes=run.dec(0.2, 1)))
    if way != LOOP:
        chat.say(f"All {found} addresses are geocoded.")
        return
    left = cities[found:]
    for number in range(run.num(16, 40)):
        if number == 2:
            run.begin()
        error = {
            "error": {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "message": "Daily quota of 2500 requests is used up. Resets at 00:00 UTC.",
                "request_id": run.hex(16),
            }
        }
        city = left[0] if run.chance.random() < 0.7 else run.chance.choice(left)
        do(chat, say, tool("geocode", {"address": f"{found + 1}, {city}"}, error, 1))
        run.wait(1, 20)
