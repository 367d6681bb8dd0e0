"""Version control and versions: rebases in a circle, pushes that are rejected, pins that fight."""

from __future__ import annotations

from bench.loops.field.cast import Act, edit, read, sh
from bench.loops.field.fifth.common import (
    FIELDS,
    HALF,
    Project,
    ask_to,
    earlier,
    idea,
    look,
    maybe,
    once_more,
    onward,
)
from bench.loops.field.run import LOOP, Run


@HALF.template("rebase", "claude-code codex", "commits branches")
def rebase_circle(run: Run, way: str) -> None:
    """Rebase, meet a conflict, solve it, be told that it is not solved, abort, rebase."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    branch = f"{run.pick('feature', 'fix', 'topic')}/{project.verbs[0]}-{project.nouns[0]}"
    branches = [
        f"topic/{verb}-{noun}" for verb, noun in zip(project.verbs, project.nouns, strict=True)
    ]
    what = {
        LOOP: f"rebase {branch} on main and run the tests.",
        "commits": f"rebase {branch} on main; it has nine commits and each will conflict.",
        "branches": f"rebase these on main, one after the other: {', '.join(branches)}.",
    }[way]
    chat.user(ask_to(run, what))
    log = "\n".join(
        f"{run.hex(7)} {verb} {noun}s"
        for verb, noun in zip(project.verbs, project.nouns, strict=True)
    )
    chat.act(look(run, "the branch"), sh(f"git log --oneline main..{branch}", log))
    chat.act(
        "", sh("git fetch origin && git status -sb | head -1", f"## {branch}...origin/{branch}")
    )

    def conflict(number: int) -> str:
        path, commit = project.path(number), log.split("\n")[number]
        return (
            f"Auto-merging {path}\nCONFLICT (content): conflict in {path}\n"
            f"error: could not apply {commit}\nhint: Resolve all conflicts manually, mark them as "
            f'resolved with\nhint: "git add <paths>", then run "git rebase --continue".\n'
            f"Could not apply {commit}\nRebasing ({number + 1}/9)"
        )

    def hunk(number: int) -> str:
        fn, attr = project.function(number), FIELDS[number % 8]
        return (
            f"<<<<<<< HEAD\n    return {fn}(found, {attr})\n=======\n    return {fn}(found)\n"
            f">>>>>>> {log.split(chr(10))[number]}"
        )

    def solve(number: int) -> Act:
        fn = project.function(number)
        return edit(project.path(number), hunk(number), f"    return {fn}(found)")

    if way == LOOP:
        ways: list[tuple[str, Act]] = [
            ("", sh("git rebase main", conflict(0), 1, 1)),
            ("Where is the conflict?", read(project.path(0), project.source(0) + hunk(0))),
            ("I keep our side.", solve(0)),
            (
                "And on.",
                sh(
                    f"git add {project.path(0)} && git -c core.editor=true rebase --continue",
                    conflict(0),
                    1,
                    1,
                ),
            ),
            ("I abort and begin anew.", sh("git rebase --abort", "")),
        ]
        for number in run.times(5, 7):
            if number == 1:
                run.begin()
            for say, act in ways:
                text = once_more(run, "the rebase") if act is ways[0][1] else say
                chat.act(maybe(run, text), act)
            if run.chance.random() < 0.3:
                chat.act("", sh("git status -sb | head -1", f"## {branch}...origin/{branch}"))
        return
    for number in range(9):
        path = project.path(number)
        if way == "branches":
            start = f"git checkout -q {branches[number]} && git rebase main"
            out = conflict(number) if number % 2 else "Successfully rebased and updated."
            chat.act(maybe(run, onward(run, branches[number])), sh(start, out, number % 2, 1))
            if number % 2:
                chat.act("", solve(number))
                done = f"Successfully rebased refs/heads/{branches[number]}."
                chat.act("", sh(f"git add {path} && git rebase --continue", done, 0, 1))
            chat.act("", sh(project.command(number), project.tested([], 12 + number), 0, 3))
            continue
        if not number:
            chat.act("I start.", sh("git rebase main", conflict(0), 1, 1))
        chat.act(maybe(run, f"The conflict of commit {number + 1}."), read(path, hunk(number)))
        chat.act("", solve(number))
        out = conflict(number + 1) if number < 8 else f"Successfully rebased refs/heads/{branch}."
        chat.act(
            maybe(run, "On.", 0.4),
            sh(f"git add {path} && git rebase --continue", out, number < 8, 1),
        )
    chat.act("The tests.", sh(project.command(), project.tested([]), 0, 7))
    chat.say("Rebased; the tests pass.")


@HALF.template("push", "opencode gemini-cli", "remotes", difficulty="easy")
def push_rejected(run: Run, way: str) -> None:
    """Push to a protected branch, with and without force, under other names of the remote."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    host = f"git.{run.pick('forge', 'code', 'source')}.internal"
    what = {
        LOOP: f"correct the typo in {project.path(0)} and push it to main.",
        "remotes": "set the new licence in our nine repositories and push each.",
    }[way]
    chat.user(ask_to(run, what))
    chat.act(
        look(run, "the remotes"), sh("git remote -v", f"origin  git@{host}:{project.name}.git")
    )

    def rejected(commit: str) -> str:
        return (
            f"Enumerating objects: {run.num(5, 19)}, done.\nWriting objects: 100% (3/3), "
            f"{run.num(200, 900)} bytes | {run.num(200, 900)}.00 KiB/s, done.\n"
            f"remote: GL-HOOK-ERR: You are not allowed to push code to protected branches. "
            f"(correlation {run.hex(12)})\nTo {host}:{project.name}.git\n"
            f" ! [remote rejected] {commit} -> main (pre-receive hook declined)\n"
            f"error: failed to push refs to '{host}'"
        )

    if way == LOOP:
        attr = run.pick(*FIELDS)
        chat.act("The typo.", edit(project.path(0), attr[:-1], attr))
        out = f"[main {run.hex(7)}] Correct a typo\n 1 file changed"
        chat.act("", sh("git commit -qam 'Correct a typo' && git log -1 --oneline", out))
        cmds = (
            "git push origin main",
            "git push",
            "git push origin HEAD:main",
            "git push -u origin main",
            "git pull --rebase origin main && git push origin main",
            "git push --force-with-lease",
        )
        for number in run.times(19, 27):
            if number == 4:
                run.begin()
            cmd = cmds[number] if number < 4 else run.pick(*cmds)
            say = run.mix([once_more(run, "the push"), idea(run, "the upstream branch")])
            chat.act(maybe(run, say, 0.8), sh(cmd, rejected("main"), 1, run.dec(1, 4)))
        return
    for number, noun in enumerate(project.nouns):
        cmd = f"cp LICENSE ../{noun}/ && cd ../{noun} && git commit -qam 'Set the licence'"
        chat.act(maybe(run, onward(run, noun)), sh(cmd, f"[main {run.hex(7)}] Set the licence"))
        out = f"To {host}:{noun}.git\n   {run.hex(7)}..{run.hex(7)}  main -> main"
        if number % 4 == 2:
            stale = f"! [rejected] main -> main (fetch first)\nhint: {noun} has new commits"
            chat.act("", sh("git push origin main", stale, 1, 2))
            chat.act("Someone was faster.", sh("git pull --rebase -q && git push", out, 0, 3))
        else:
            chat.act("", sh(f"git -C ../{noun} push origin main", out, 0, run.dec(1, 4)))
    chat.say("The nine repositories have the new licence.")


@HALF.template("hook", "cline qwen-code", "folders")
def hook_changes_files(run: Run, way: str) -> None:
    """Commit; a hook reformats and fails; add its change; commit; it changes it back."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    what = {
        LOOP: f"commit the new module {project.path(0)}.",
        "folders": f"format {project.name} with the new settings of the hook, folder by folder.",
    }[way]
    chat.user(ask_to(run, what))
    hooks = run.some(("black", "isort", "ruff-format", "yapf", "docformatter", "autopep8"), 2)
    config = f"repos:\n- repo: local\n  hooks:\n  - id: {hooks[0]}\n  - id: {hooks[1]}"
    chat.act(look(run, "the hooks"), read(".pre-commit-config.yaml", config))
    chat.act("", sh("git status --short", f"?? {project.path(0)}"))

    def hook(path: str, bad: str) -> str:
        rows = "\n".join(f"{name:.<60}{'Failed' if name == bad else 'Passed'}" for name in hooks)
        return (
            f"{rows}\n- hook id: {bad}\n- duration: "
            f"{run.dec(0.2, 2)}s\n- files were modified by this "
            f"hook\n\nreformatted {path}\n1 file reformatted."
        )

    if way == LOOP:
        path = project.path(0)
        for number in run.times(9, 13):
            if number == 2:
                run.begin()
            bad = hooks[number % 2]
            say = run.mix(
                "The hook has changed the file,|It was reformatted,|The formatter touched it,",
                "so I add it and commit again.|I stage the change.|one more commit should do.",
            )
            cmd = f"git add {path} && git commit -m 'Add {project.nouns[0]}s'"
            chat.act(maybe(run, say), sh(cmd, hook(path, bad), 1, run.dec(1, 4)))
            if run.chance.random() < 0.7:
                call = f"{project.function(0)}(found)"
                diff = f"-    return {call}\n+    return ({call})"
                lines = diff if number % 2 else "\n".join(diff.split("\n")[::-1])
                chat.act(
                    maybe(run, "What did it change?"), sh(f"git diff -U0 {path} | tail -2", lines)
                )
        while len(run.steps) - (run.begun or 0) < 16:
            cmd = f"git commit -am 'Add {project.nouns[0]}s'"
            chat.act("", sh(cmd, hook(path, run.pick(*hooks)), 1, run.dec(1, 4)))
        return
    for noun in project.nouns:
        folder = f"{project.name}/{noun}"
        count = run.num(2, 30)
        out = f"{hook(folder, hooks[0])}\n{count} files left unchanged."
        chat.act(
            maybe(run, onward(run, folder)), sh(f"pre-commit run --files {folder}/*", out, 1, 2)
        )
        done = f"[main {run.hex(7)}] Format {noun}\n {count} files changed"
        chat.act("", sh(f"git commit -qam 'Format {noun}' && git log -1 --stat | tail -2", done))
    chat.say("All folders are formatted and committed.")


@HALF.template("ci", "codex claude-code", "green releases")
def pipeline_stays_red(run: Run, way: str) -> None:
    """Start the pipeline again, with an empty commit or a button; "
    "minutes each; the same failure."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    what = {
        LOOP: f"get the pipeline of {project.name} green.",
        "green": f"get the pipeline of {project.name} green; it has many jobs that fail.",
        "releases": f"release the nine packages of {project.name}, each "
        f"when its pipeline is green.",
    }[way]
    chat.user(ask_to(run, what))
    jobs = [
        f"{kind}-{noun}"
        for kind, noun in zip(("lint", "unit", "e2e") * 3, project.nouns, strict=True)
    ]
    runner = f"runner-{run.num(1, 30)}"

    def state(id: int, job: str, message: str) -> str:
        word = "failed" if message else "success"
        head = f"pipeline {id}  {word}  {run.num(3, 20)}m{run.num(10, 59)}s  {run.stamp('%H:%M')}"
        steps = "\n".join(
            f"{run.stamp()} {line}"
            for line in (
                f"Running with gitlab-runner 18.4.0 on {runner} {run.hex(8)}",
                f"Fetching changes with git depth set to 20, checking out {run.hex(8)}",
                f"Restoring cache for {project.name}-main-protected",
                f"$ make {job}",
                f"make[1]: Entering directory '/builds/{project.name}'",
            )
        )
        tail = f"ERROR {message}\nERROR: Job failed: exit code 1" if message else "Job succeeded"
        return f"{head}\n  {job:20} {word}  {runner}\n{steps}\n{run.stamp()} {tail}"

    chat.act(
        look(run, "the last runs"),
        sh("glab ci list | head -2", state(run.num(900, 999), jobs[0], "exit 1")),
    )
    chat.act("", read(".gitlab-ci.yml", "\n".join(f"{job}:\n  script: make {job}" for job in jobs)))
    if way == LOOP:
        message = run.pick(
            "could not pull registry.internal/ci:14: manifest unknown",
            f"license server {runner}.internal: no seats left",
            "variable DEPLOY_KEY is empty",
        )
        for number in run.times(9, 13):
            id = 1000 + number * 3
            if number == 2:
                run.begin()
            cmd = run.pick(
                "git commit --allow-empty -qm 'Trigger CI' && git push -q",
                "glab ci retry",
                f"glab ci run -b main --variables ATTEMPT:{number}",
            )
            say = once_more(run, "the pipeline")
            chat.act(
                maybe(run, say), sh(cmd, f"Created pipeline (id: {id}), status: created", 0, 3)
            )
            pause = run.pick(300, 420, 600)
            see = f"sleep {pause}; glab ci get -p {id}"
            text = run.pick("How did it go?", "The result.", "Is it green now?")
            chat.act(maybe(run, text, 0.5), sh(see, state(id, jobs[1], message), 0, pause))
        return
    for number, job in enumerate(jobs):
        noun, id = project.nouns[number], 1000 + number * 3
        if way == "green":
            bug = project.failure(number)
            seen = state(id, job, f"{bug.path}: {bug.got} != {bug.wanted}")
            chat.act(maybe(run, f"What about {job}?"), sh(f"glab ci get -p {id}", seen, 0, 2))
            chat.act("", read(project.path(number), project.source(number)))
            chat.act(
                maybe(run, idea(run, bug.code)), edit(project.path(number), bug.got, bug.wanted)
            )
            push = f"git commit -qam 'Correct {noun}' && git push"
            chat.act("", sh(push, f"Created pipeline (id: {id + 3}), status: created", 0, 3))
            run.wait(200, 900)
            continue
        tag = f"{noun}-{run.num(1, 9)}.{run.num(0, 20)}"
        cmd = f"git tag {tag} && git push origin {tag}"
        chat.act(maybe(run, onward(run, noun)), sh(cmd, f"Created pipeline (id: {id})", 0, 3))
        run.wait(200, 900)
        chat.act("", sh(f"sleep 300; glab ci get -p {id}", state(id, job, ""), 0, 300))
    if way == "green":
        chat.act("The last one:", sh("glab ci get -p 1030", state(1030, "deploy", ""), 0, 2))
    chat.say("The pipeline is green." if way == "green" else "The nine packages are released.")


@HALF.template("pins", "claude-code openhands", "upgrades resolves")
def pins_that_fight(run: Run, way: str) -> None:
    """Raise one dependency, which wants the other lower; lower "
    "that, which wants the first lower."""
    project = Project(run, "ts")
    chat = run.chat()
    earlier(run, chat, project)
    first, second = run.some(("react-grid", "vite", "eslint", "typescript", "zod", "storybook"), 2)
    low, high = run.num(3, 6), run.num(7, 12)
    what = {
        LOOP: f"upgrade {first} to version {high} in {project.name}, the build must work.",
        "upgrades": f"upgrade the nine internal packages in "
        f"{project.name} one by one, with a build.",
        "resolves": f"upgrade {first} to {high} and everything that needs to go with it.",
    }[way]
    chat.user(ask_to(run, what))
    pins = f'"{first}": "^{low}.0.0", "{second}": "^{low}.2.0"'
    chat.act(look(run, "the dependencies"), read("package.json", f'{{"dependencies": {{{pins}}}}}'))
    chat.act(
        "", sh("npm ci --silent && npm run build | tail -1", f"built in {run.dec(3, 20)}s", 0, 20)
    )

    def peer(name: str, version: int, other: str, wants: int) -> str:
        rows = (
            "code ERESOLVE",
            "ERESOLVE unable to resolve dependency tree",
            "",
            f"While resolving: {project.name}@1.{low}.0",
            f"Found: {other}@{version}.{len(other)}.0",
            f"node_modules/{other}",
            f'  {other}@"^{version}.0.0" from the root project',
            f'  peer {other}@">={version}" from @{project.name}/{project.nouns[0]}@2.1.0',
            "",
            "Could not resolve dependency:",
            f'peer {other}@"^{wants}.0.0" from {name}@{wants}.1.{len(name)}',
            f"node_modules/{name}",
            f'  {name}@"{wants}" from the root project',
            "",
            "Fix the upstream dependency conflict, or retry this command with --force or",
            "--legacy-peer-deps to accept an incorrect (and potentially broken) resolution.",
            "",
            f"For a full report see /root/.npm/_logs/{run.stamp('%Y-%m-%dT%H_%M_%S')}_"
            f"{run.num(100, 999)}Z-eresolve-report.txt",
        )
        return "\n".join(f"npm error {row}".rstrip() for row in rows)

    if way == LOOP:
        cmds = (
            f"npm install {first}@{high}",
            f"npm install {second}@{high}",
            f"npm install {first}@{high} {second}@{low}",
            f"rm -rf node_modules package-lock.json && npm install {second}@{high}",
        )
        count = run.num(2, 4)
        for number in run.times(20, 25):
            if number == count:
                run.begin()
            place = number % count
            fight = (first, low, second, high) if place % 2 == 0 else (second, high, first, low)
            cmd, out = cmds[place], peer(*fight)
            say = run.mix(
                [idea(run, f"the version of {run.pick(first, second)}"), once_more(run, "npm")]
            )
            chat.act(maybe(run, say, 0.8), sh(cmd, out, 1, run.dec(3, 20)))
        return
    for number, noun in enumerate(project.nouns):
        name = f"@{project.name}/{noun}" if way == "upgrades" else f"{first}-{noun}"
        version = run.num(2, 30)
        if way == "resolves":
            out = peer(name, version, noun, version + 1)
            chat.act(
                maybe(run, f"What is missing for {first}?"),
                sh(f"npm install {first}@{high}", out, 1, 9),
            )
        done = (
            f"changed {run.num(1, 30)} packages in {run.dec(2, 9)}s\n+ {name}@{version}.0.{number}"
        )
        chat.act(maybe(run, onward(run, name)), sh(f"npm install {name}@{version}", done, 0, 9))
        built = f"built {200 + number} modules in {run.dec(3, 20)}s"
        if way == "upgrades":
            chat.act("", sh("npm run build | tail -1", built, 0, run.dec(3, 20)))
    done = f"added {run.num(9, 90)} packages\n+ {first}@{high}.0.1"
    chat.act("Now it fits.", sh("npm install && npm run build | tail -1", done, 0, 30))
    chat.say("The build works with the new versions.")
