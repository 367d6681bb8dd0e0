"""Coding agents that go through the same successful steps, re-read files, plan, or only talk."""

from __future__ import annotations

import json
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn, edit, grep, read, shell
from bench.loops.scenes.scene import end, look_around, more, task
from bench.loops.scenes.world import Code, clock


def _stations(code: Code, which: int) -> list[tuple[str, Act]]:
    """Return fifteen looks at one part of a repository; each part has its own."""
    path, noun, name = code.files[which], code.nouns[which], code.functions[which]
    text = code.source(which)
    found = "\n".join(f"{other}:{9 + which}: {name}(items)" for other in code.files[:3])
    return [
        (path, read(path, text)),
        (f"uses of {name}", grep(name, ".", found)),
        (f"the folder of {noun}s", shell(f"ls -1 data/{noun}", f"{noun}_a.json\n{noun}_b.json")),
        (
            f"the schema of {noun}",
            shell(f"cat schema/{noun}.sql", f"create table {noun} (id int);"),
        ),
        (
            f"the history of {path}",
            shell(f"git log --oneline {path}", f"{which}a4c1f2 Add {noun}s"),
        ),
        (f"the settings of {noun}s", shell(f"grep -n {noun} config.toml", f"12:[{noun}]")),
        (f"lines of {path}", shell(f"wc -l {path}", f"{20 + which} {path}")),
        (f"the tests of {noun}s", shell(f"grep -c def tests/{noun}.py", str(3 + which))),
        (f"who wrote {path}", shell(f"git blame -L1,2 {path}", f"^{which}b3 (Priya) {text[:20]}")),
        (f"the types in {path}", shell(f"ctags -x {path}", f"{name} function 3 {path}")),
        (
            f"imports of {path}",
            shell(f"grep -n import {path}", f"1:import {code.nouns[-1 - which]}"),
        ),
        (f"todos in {path}", shell(f"grep -n TODO {path}", "")),
        (f"docs on {noun}s", shell(f"head -3 docs/{noun}.md", f"# {noun.title()}s\n\nSee {path}.")),
        (f"branches about {noun}s", shell(f"git branch --list '*{noun}*'", "")),
        (f"fixtures of {noun}s", shell(f"ls fixtures/{noun}", f"{noun}.yml")),
    ]


def cycle(rng: Random) -> list[Run]:
    """Steps that were all taken before, in the same order; or the same steps on the next part."""
    code, length = Code(rng), rng.choice((2, 3, 3, 4, 5, 6, 8, 9, 11, 13, 15))
    wanted, parrot = task(rng, code), rng.random() < 0.25
    chosen = sorted(rng.sample(range(15), length))
    part = rng.randrange(8)
    voice = Voice(rng, parrot=parrot)
    start = look_around(rng, code, voice)
    stations = _stations(code, part)
    loop, goes_on = list(start), max(more(rng), 2 * length + 4)
    for at in range(length + goes_on):
        what, act = stations[chosen[at % length]]
        loop.append(Turn(voice("read", what), (act,)))
    runs = [Run(wanted, loop, len(start) + length, difficulty="hard" if length > 6 else "medium")]

    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for other in rng.sample(range(8), 8 if length < 6 else 4):
        parts = _stations(code, other)
        honest += [Turn(voice("read", parts[at][0]), (parts[at][1],)) for at in chosen]
    honest.append(end(rng, "here is the overview of all parts that you asked for"))
    overview = f"Describe each part of {code.project} in a table: its files, tests and settings."
    runs.append(Run(overview, honest))

    voice = Voice(rng)
    second = look_around(rng, code, voice)
    for version in range(rng.randint(4, 7)):
        path = code.files[version]
        second.append(Turn(voice("edit", path), (edit(path, *code.change(version, version)),)))
        failed = code.functions[: 7 - version]
        second.append(
            Turn(voice("run", "the tests"), (shell(code.test_command, code.report(failed, 30), 1),))
        )
        changed = f" {path} | {version + 2} ++-\n {version + 1} files changed"
        second.append(Turn(voice("check", "the diff"), (shell("git diff --stat", changed),)))
    return [*runs, Run(wanted, [*second, end(rng, "seven of the failures are repaired")])]


def same_success(rng: Random) -> list[Run]:
    """One successful command again and again; or one that says nothing, on the next target."""
    code = Code(rng)
    wanted = task(rng, code)
    what, command, output = rng.choice(
        (
            ("the working tree", "git status", "On branch main\nnothing to commit"),
            ("the folder", "ls -la", "drwxr-xr-x 3 app 4096 Jan 11 08:12 .\n-rw-r--r-- README.md"),
            ("the version", "node --version", "v22.11.0"),
            ("the configuration", "cat config.toml", "[server]\nport = 8080\nworkers = 4"),
            ("the current folder", "pwd && date", "/work/app\n{now}"),
            (
                "the health of the server",
                "curl -s localhost:8080/health",
                '{{"status":"ok","uptime_s":{count},"request_id":"{id:08x}"}}',
            ),
        )
    )

    def look(voice: Voice, at: int) -> Turn:
        shown = output.format(now=clock(7 * at), count=300 + 7 * at, id=rng.getrandbits(32))
        return Turn(voice("check", what), (shell(command, shown),))

    voice = Voice(rng, parrot=rng.random() < 0.3)
    start = look_around(rng, code, voice)
    loop = start + [look(voice, at) for at in range(more(rng) + 1)]
    runs = [Run(wanted, loop, len(start) + 1, difficulty="easy")]
    voice = Voice(rng)
    honest = look_around(rng, code, voice)
    for path in code.files:
        honest.append(Turn(voice("do", path), (shell(f"git mv {path} lib/{path}", ""),)))
    for noun in code.nouns:
        honest.append(Turn(voice("do", f"{noun}s"), (shell(f"mkdir -p lib/{noun}", ""),)))
    honest.append(look(voice, 0))
    runs.append(Run(f"Move the sources of {code.project} to lib/.", [*honest, end(rng, "moved")]))
    voice, second = Voice(rng), []
    for at in range(rng.randint(6, 9)):
        second.append(look(voice, at * 60))
        reply = rng.choice(_AGAIN).format(what=what, file=code.files[at % 8])
        second.append(Turn(f"It is as before: {output[:20]}…", reply=reply, wait=200))
    second.append(Turn("Glad to help."))
    return [*runs, Run(f"What is {what}? Check it.", second, difficulty="hard")]


_AGAIN = (
    "I just changed {file}. Could you check {what} again?",
    "And now? I did something in the other terminal.",
    "Please look at {what} again, I restarted everything.",
    "Hm, I switched to another branch and back. Same as before?",
    "Thanks. I edited {file} by hand; once more please.",
    "OK, pulled the latest {file}. What about now?",
)


def reread(rng: Random) -> list[Run]:
    """After each compaction the same files are read and nothing follows; or changes follow."""
    code = Code(rng)
    wanted, every = task(rng, code), rng.randint(6, 8)
    voice = Voice(rng)
    loop = [
        Turn(
            voice("read", code.files[at % every]),
            (read(code.files[at % every], code.source(at % every)),),
        )
        for at in range(every * rng.randint(4, 6))
    ]
    summary = f"I read {', '.join(code.files[:every])}. No file was changed yet. Next: {wanted}"
    runs = [Run(wanted, loop, every, "", "hard", [summary], every=every)]
    honest: list[Turn] = []
    summaries = []
    for window in range(4):
        names = rng.sample(range(8), every - 4)
        for at in names:
            path = code.files[at]
            honest.append(Turn(voice("read", path), (read(path, code.source(at, window)),)))
        for at in names[:2]:
            path = code.files[at]
            honest.append(Turn(voice("edit", path), (edit(path, *code.change(at, window)),)))
        failed = code.functions[: 3 - window]
        report = shell(code.test_command, code.report(failed, 20), int(bool(failed)))
        honest.append(Turn(voice("run", "the tests"), (report,)))
        diff = shell("git diff --stat", f"{window * 2 + 2} files changed")
        honest.append(Turn(voice("check", "the diff"), (diff,)))
        changed = " and ".join(code.files[at] for at in names[:2])
        summaries.append(f"Changed so far: {changed} and others. {len(failed)} tests still fail.")
    honest.append(end(rng, "the tests pass"))
    return [*runs, Run(wanted, honest, None, "", "hard", summaries, every=every)]


def _todos(items: list[str], done: int) -> Act:
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(items)
    todos = [{"content": item, "status": state} for item, state in zip(items, states, strict=False)]
    said = "Todos have been modified successfully. Ensure that you continue to use the todo list."
    return Act("TodoWrite", {"todos": json.dumps(todos)}, said)


def plan(rng: Random) -> list[Run]:
    """A list of tasks is written again and nothing is done; or it is ticked off beside the work."""
    code = Code(rng)
    wanted = task(rng, code)
    items = [f"{v.title()} the {n}s" for v, n in zip(code.verbs[:6], code.nouns[:6], strict=True)]
    voice = Voice(rng)
    loop = start = look_around(rng, code, voice)
    for _ in range(more(rng) + 1):
        shuffled = rng.sample(items, 6) if rng.random() < 0.3 else items
        loop = [*loop, Turn(voice("do", "the plan"), (_todos(shuffled, 0),))]
    runs = [Run(wanted, loop, len(start) + 1)]
    voice = Voice(rng)
    honest = [*look_around(rng, code, voice), Turn(voice("do", "the plan"), (_todos(items, 0),))]
    for at, item in enumerate(items):
        path = code.files[at]
        change = edit(path, *code.change(at, at))
        honest.append(Turn(voice("edit", path), (change,)))
        honest.append(Turn(voice("do", f"“{item}” as done"), (_todos(items, at + 1),)))
    return [*runs, Run(wanted, [*honest, end(rng, "every item of the list is done")])]


_PROMISES = (
    "I will now begin with the implementation of {f}.",
    "The plan is clear: first {f}, then its tests. Starting right away.",
    "Understood. My next step is to change {f} as described.",
    "I have everything that I need. Let me proceed with {f}.",
    "To summarise: {f} has to be changed. I'm about to do so.",
    "Certainly! I'll get going with {f} and report back.",
    "As said, {f} is the place to work on, and that is what I am going to do.",
    "Great. Without further ado, {f} comes first.",
    "I'm ready to carry out the change to {f}. Proceeding.",
    "Now I shall make the modification in {f} and verify it afterwards.",
    "Let me restate the goal: {f} should page its results. I'll take it from here.",
    "Of course. Working on {f} now.",
)


def idle(rng: Random) -> list[Run]:
    """Promises without a call, whatever the harness says; or talk with a person, or one lapse."""
    code = Code(rng)
    wanted, voice = task(rng, code), Voice(rng, 0)
    start = look_around(rng, code, voice)
    loop = start + [
        Turn(rng.choice(_PROMISES).format(f=rng.choice(code.functions[:2])), reply="idle")
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, len(start) + 2)]
    honest = look_around(rng, code, voice)
    for at, noun in enumerate(code.nouns):
        answer = (
            f"{noun.title()}s come in through {code.files[at]}, where {code.functions[at]} keeps "
            f"those above the limit of {10 + 7 * at}. {code.functions[-at - 1]} writes them."
        )
        question = rng.choice(_QUESTIONS).format(noun=code.nouns[(at + 1) % 8])
        honest.append(Turn(answer, reply=question, wait=90))
    honest.append(Turn("They are kept for thirty days, see config.toml."))
    runs.append(Run(f"I am new here. How do {code.nouns[0]}s get in?", honest))
    second = look_around(rng, code, voice)
    for at in range(6):
        if rng.random() < 0.5:
            promise = rng.choice(_PROMISES).format(f=code.functions[at])
            second.append(Turn(promise, reply="idle"))
        change = edit(code.files[at], *code.change(at, at))
        second.append(Turn(voice("edit", code.files[at]), (change,)))
    return [*runs, Run(wanted, [*second, end(rng, "paging works")], difficulty="hard")]


_QUESTIONS = (
    "Thanks. And where do {noun}s come from?",
    "I see. What about {noun}s, is that the same?",
    "OK. How are {noun}s different from that?",
    "Good to know. Where would I look for {noun}s?",
    "Clear. Who calls the code for {noun}s?",
)


PLOTS = (
    Plot(
        "cycle",
        cycle,
        "claude_code codex gemini_cli opencode openhands swe_agent cline "
        "claude_code/elided mini_swe_agent",
    ),
    Plot("same_success", same_success, "gemini_cli codex claude_code openhands opencode/trimmed"),
    Plot(
        "reread",
        reread,
        "claude_code/compacted codex/compacted gemini_cli/compacted opencode/compacted",
    ),
    Plot("plan", plan, "claude_code opencode gemini_cli"),
    Plot("idle", idle, "cline mini_swe_agent openhands swe_agent gemini_cli"),
)
