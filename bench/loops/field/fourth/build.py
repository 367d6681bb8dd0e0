"""Terminals of coding agents: servers, dependencies, git, hooks, images, pipelines, training."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, tool
from bench.loops.field.fourth.habits import Voice, look_around
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("fourth")
template = HALF.template

_APPS = ("storefront", "backoffice", "gateway", "partner-api", "reports", "kiosk", "timesheet")
_CAST = ("Ines", "Tomasz", "Priya", "Wen", "Okan", "Lucie")


@template("server", "claude-code gemini-cli opencode cline", "freed several", difficulty="easy")
def deaf_port(r: Run, way: str) -> None:
    """A server is killed and started on a port that a supervisor takes back at once."""
    voice = Voice(r)
    app, port = r.pick(*_APPS), r.num(3000, 8999)
    c = r.chat()

    def refused(at: int) -> str:
        return (
            f"[{r.stamp('%H:%M:%S')}] starting {app} (pid {r.num(2000, 65000)})\nnode:events:497\n"
            "      throw er; // Unhandled 'error' event\n\n"
            f"Error: listen EADDRINUSE: address already in use 0.0.0.0:{at}\n"
            f"    at Server.setupListenHandle [as _listen2] (node:net:1{r.num(800, 999)}:16)\n"
            "  code: 'EADDRINUSE', errno: -98, syscall: 'listen'\n\nNode.js v24.11.0"
        )

    if way == "several":
        c.user("Restart all apps of the demo machine and make sure that each of them answers.")
        look_around(r, c)
        for place, name in enumerate(r.some(_APPS, 6)):
            at = port + place
            pid = r.num(2000, 65000)
            c.act(f"{name} is on {at}.", sh(f"lsof -ti :{at}", str(pid)))
            c.act("", sh(f"kill {pid}; sleep 1; pnpm --filter {name} start &", f"ready on {at}"))
            c.act("", sh(f"curl -s -o /dev/null -w '%{{http_code}}' localhost:{at}/health", "200"))
        c.say("All six answer with 200.")
        return
    c.user(f"Start {app} on port {port} and check that the login page is served.")
    look_around(r, c)
    start = [
        f"PORT={port} pnpm --filter {app} start",
        f"pnpm --filter {app} start --port {port}",
        f"cd apps/{app} && PORT={port} node dist/server.js",
    ]
    c.act("Starting it.", sh(start[0], refused(port), 1, r.dec(1, 3)))
    for number in range(3 if way == "freed" else r.num(9, 11)):
        if number == 2:
            r.begin()
        pid = r.num(2000, 65000)
        how = r.pick("kill -9 {}", "kill {}", "kill -TERM {}", "sudo kill -9 {}")
        find = r.pick(f"lsof -ti :{port}", f"fuser {port}/tcp", f"ss -lptn 'sport = :{port}'")
        out = f'LISTEN 0 511 *:{port} *:* users:(("node",pid={pid},fd=19))'
        said = voice(
            ["The port is taken.", "Something still listens.", "EADDRINUSE.", "There it is again."],
            ["Let me find the process.", "I'll free the port.", "I stop the old server first."],
        )
        c.act(said, sh(find, out if find[0] == "s" else str(pid)))
        c.act(r.pick("", f"It is {pid}."), sh(how.format(pid)))
        said = r.pick("Now the server should start.", "Trying again.", "The port is free now.", "")
        c.act(said, sh(r.pick(*start), refused(port), 1, r.dec(1, 3)))
    if way == LOOP:
        return
    c.act("It comes back: who starts it?", sh("ps -o ppid,cmd -C node", "1 pm2: God Daemon"))
    c.act("", sh("pm2 stop all", f"[PM2] [{app}](0) ✓"))
    c.act("", sh(start[0], f"[{r.stamp('%H:%M:%S')}] ready on {port}"))
    c.act("", sh(f"curl -sI localhost:{port}/login", "HTTP/1.1 200 OK"))
    c.say("It was started by pm2. The login page is served now.")


@template("dependencies", "codex claude-code qwen-code swe-agent", "downwards one-by-one")
def version_carousel(r: Run, way: str) -> None:
    """Four pins of a package are tried in turn, and none fits with the others."""
    voice = Voice(r)
    name, other = r.pick(("fastgeo", "shapelib"), ("pdfmill", "fontkit-py"), ("torchaux", "numkit"))
    major = r.num(2, 6)
    c = r.chat()

    def conflict(pin: str) -> str:
        return (
            f"Collecting {name}=={pin}\n  Using cached {name}-{pin}-py3-none-any.whl.metadata "
            f"({r.dec(2, 9, 1)} kB)\nINFO: pip is looking at multiple versions of {name}\n"
            f"ERROR: Cannot install -r requirements.txt and {name}=={pin} because these package "
            f"versions have conflicting dependencies.\n\n    {name} {pin} depends on {other}<2\n"
            f"    reportkit 9.1 depends on {other}>=2\n\nERROR: ResolutionImpossible"
        )

    def installed(what: str) -> str:
        return (
            f"Downloading {what.replace('==', '-')}-py3-none-any.whl ({r.num(80, 900)} kB)\n"
            f"   ━━━━━━━━━━━━━━━━━━ {r.num(80, 900)} kB {r.dec(1, 20, 1)} MB/s eta 0:00:00\n"
            f"Successfully installed {what.replace('==', '-')}"
        )

    if way == "one-by-one":
        c.user("Update the outdated packages one by one, and run the tests after each.")
        look_around(r, c)
        for what in ("attrs", "click", "rich", "tzdata", "lxml", "orjson", "pillow", "uvloop"):
            pin = f"{what}=={r.num(2, 30)}.{r.num(0, 9)}.{r.num(0, 9)}"
            c.act(r.pick("", f"Next: {what}."), sh(f"pip install '{pin}'", installed(pin)))
            c.act("", sh("pytest -q", f"{r.num(300, 310)} passed in {r.dec(5, 20)}s"))
        c.say("All of them are up to date.")
        return
    c.user(f"The export needs {name} {major} or later. Add it so that `pip install` works.")
    look_around(r, c)
    pins = [f"{major}.{minor}.0" for minor in (4, 3, 2, 1)]
    if way == "downwards":
        pins = [f"{major}.{minor}.{patch}" for minor in range(6, 2, -1) for patch in (2, 1, 0)]
    for number in range(len(pins) if way == "downwards" else r.num(21, 25)):
        pin = pins[number] if number < len(pins) else r.pick(*pins)
        if number == 4:
            r.begin()
        flag = r.pick("", "", " -r requirements.txt", " --upgrade", " --no-cache-dir")
        flag = "" if way == "downwards" else flag
        fits = way == "downwards" and number == len(pins) - 1
        said = voice(
            ["The resolver fails.", "Conflict.", "Not this one.", "Incompatible.", "Hmm,"],
            [
                f"let me try {pin}.",
                f"{pin} may have looser bounds.",
                f"perhaps {name} {pin} works with {other}.",
                f"I'll pin {pin}.",
            ],
        )
        said = said if number else f"I take the latest one, {pin}."
        if way == LOOP and number and (number == 1 or r.num(0, 5) == 0):
            listed = f"{name} ({pins[0]})\nAvailable versions: {', '.join(pins)}"
            c.act("Which versions are there?", sh(f"pip index versions {name}", listed))
        out = installed(f"{name}=={pin}") if fits else conflict(pin)
        c.act(said, sh(f"pip install '{name}=={pin}'{flag}", out, not fits, r.dec(2, 9)))
    if way == "downwards":
        c.act("It fits.", sh(f"echo '{name}=={pins[-1]}' >> requirements.txt"))
        c.say(f"{name} {pins[-1]} is the latest that fits.")


@template("git", "claude-code codex openhands swe-agent", "commit-by-commit")
def rebase_groundhog(r: Run, way: str) -> None:
    """A rebase stops at one commit; it is resolved, aborted, and begun anew."""
    voice = Voice(r)
    branch, file = f"feat/{r.pick(*_APPS)}-{r.num(100, 999)}", f"src/{r.pick(*_APPS)}/routes.ts"
    total, commit = r.num(11, 13), r.hex(7)
    c = r.chat()
    c.user(f"Rebase {branch} onto main, resolve conflicts in favour of our routes.")
    look_around(r, c)

    kind = r.pick("content", "add/add")

    def stops(at: int, hash: str, path: str) -> str:
        return (
            f"Auto-merging {path}\nCONFLICT ({kind}): Merge conflict in {path}\nerror: could not "
            f"apply {hash}... Add route {at}\nhint: Resolve all conflicts manually, mark them as "
            'resolved with\nhint: "git add/rm <conflicted_files>", then run "git rebase '
            f'--continue".\nRebasing ({at}/{total})'
        )

    if way == LOOP:
        at = r.num(3, 6)
        for number in range(r.num(7, 8)):
            if number == 1:
                r.begin()
            said = voice(
                ["I'll start the rebase.", "A fresh start is cleaner.", "Let me redo this."],
                ["Rebasing onto main.", "With main up to date.", "This time step by step."],
            )
            start = r.pick("git rebase main", "git fetch -q && git rebase origin/main")
            c.act(said if number else "", sh(start, stops(at, commit, file), 1))
            mark = (
                f"<<<<<<< HEAD\n  r.get('/v{at}', a)\n=======\n  r.get('/w', b)\n>>>>>>> {commit}"
            )
            if r.num(0, 1):
                c.act("The conflict:", sh(f"git diff {file}", mark))
            c.act("Keeping ours.", sh(f"git checkout --theirs {file} && git add {file}"))
            go = "git -c core.editor=true rebase --continue"
            c.act(r.pick("", "Continue."), sh(go, stops(at, commit, file), 1))
            c.act(r.pick("That went wrong, I abort.", "Abort.", ""), sh("git rebase --abort"))
        return
    c.act("", sh("git rebase main", stops(1, r.hex(7), file), 1))
    for at in range(2, total + 1):
        path = r.pick(file, file, file.replace("routes", "menu"))
        c.act(r.pick("", "Ours."), sh(f"git checkout --theirs {path} && git add {path}"))
        done = f"Successfully rebased and updated refs/heads/{branch}."
        out = stops(at, r.hex(7), path) if at < total else done
        c.act("", sh("git -c core.editor=true rebase --continue", out, at < total))
    c.say(f"{branch} is on top of main.")


@template(
    "hooks", "claude-code codex cline mini-swe-agent", "settles many-commits", difficulty="hard"
)
def hook_undoes(r: Run, way: str) -> None:
    """A hook writes a file back as it was, so the commit fails, and the change is made again."""
    voice = Voice(r)
    app = r.pick(*_APPS)
    path, key = f"apps/{app}/config.yaml", r.pick("retries", "workers", "max_conns", "ttl")
    old, new = f"{key}: {r.num(1, 9)}", f"{key}: {r.num(10, 60)}"
    c = r.chat()

    def hook(*files: str) -> str:
        checks = r.some(("trim trailing whitespace", "check yaml", "detect private key"), 3)
        lines = [f"{one}{'.' * (66 - len(one))}Passed" for one in checks]
        if files:
            lines.append(f"config generator{'.' * 50}Failed\n- hook id: gen-config")
            lines.append(f"- duration: {r.dec(0.2, 2)}s\n- files were modified by this hook")
            lines += [f"Generated {file}" for file in files]
        return "\n".join(lines)

    if way == "many-commits":
        c.user("Bump the workers of each app, one commit for each app.")
        look_around(r, c)
        for name in r.some(_APPS, 6):
            file = f"apps/{name}/config.yaml"
            c.act(r.pick("", f"Now {name}."), edit(file, old, new))
            add = f"git add {file} && git commit -m 'Raise {key} of {name}'"
            c.act("", sh(add, hook(file), 1, r.dec(1, 4)))
            out = f"{hook()}\n[main {r.hex(7)}] Raise {key} of {name}"
            c.act("The hook wrote the header; add that too.", sh(add, out, 0, r.dec(1, 4)))
        c.say("Each app has its commit.")
        return
    c.user(f"Set {new} for {app} and commit it.")
    look_around(r, c)
    c.act("", read(path, f"# generated\nname: {app}\n{old}\nregion: eu"))
    words = ("Raise {} of {}", "Set {} for {}", "chore({1}): {0}", "config: {} in {}")
    for number in range(3 if way == "settles" else r.num(9, 11)):
        if number == 1:
            r.begin()
        said = voice(
            ["The file has the old value.", "The change is gone.", "Let me apply it.", "Odd."],
            [f"I set {new}.", "Editing it again.", f"So {key} must be changed.", "Once more."],
        )
        c.act(said if number else f"I set {new}.", edit(path, old, new))
        message = r.pick(*words).format(key, app)
        add = r.pick(f"git add {path}", "git add -A", f"git add apps/{app}")
        said = r.pick("Commit.", "", "Now commit it.", "The hook changed files, so I add them.")
        c.act(said, sh(f'{add} && git commit -m "{message}"', hook(path), 1, r.dec(1, 4)))
        if r.num(0, 2) == 0:
            c.act("", sh(f"grep {key} {path}", old))
    if way == LOOP:
        return
    source = f"deploy/{app}.jsonnet"
    c.act("What generates it?", sh("cat .pre-commit-config.yaml", f"gen-config: {source}"))
    c.act("", edit(source, old, new))
    c.act("", sh("make config", f"Generated {path}"))
    out = f"{hook()}\n[main {r.hex(7)}] Set {key} for {app}"
    c.act("", sh(f"git add -A && git commit -m 'Set {key} for {app}'", out, 0, r.dec(1, 4)))
    c.say(f"The value comes from {source}; it is changed and committed there.")


@template("images", "opencode gemini-cli claude-code responses-kept", "advances services")
def layer_fails(r: Run, way: str) -> None:
    """An image does not build as its machine has no memory left; the file is changed to and fro."""
    voice = Voice(r)
    app = r.pick(*_APPS)
    c = r.chat()
    base = ["node:24-slim", "node:24-alpine", "node:24-bookworm"]

    def build(step: int, error: str = "", name: str = app) -> str:
        lines = [
            f'#0 building with "default" instance using docker driver\n#{r.num(1, 3)} [internal] '
            f"load build definition from Dockerfile\n#1 transferring dockerfile: {r.num(700, 999)}B"
            f" done\n#1 DONE {r.dec(0, 0.2, 1)}s"
        ]
        lines += [f"#{4 + n} [{n}/9] CACHED" for n in range(2, step)]
        if error:
            lines.append(f"#{4 + step} [{step}/9] RUN\n#{4 + step} {r.dec(9, 40)} {error}")
            lines.append(f"ERROR: failed to build: failed to solve: exit code: {r.pick(137, 137)}")
        else:
            lines.append(f"#14 naming to docker.io/library/{name}:dev done\n#14 DONE 0.0s")
        return "\n".join(lines)

    if way == "services":
        c.user("Build the images of all our services and tell me their sizes.")
        look_around(r, c)
        for name in _APPS:
            c.act(r.pick("", f"{name}:"), sh(f"docker build -t {name}:dev .", build(9, "", name)))
            size = f"{name}:dev  {r.num(120, 900)}MB"
            c.act("", sh(f"docker images {name}:dev --format '{{{{.Size}}}}'", size))
        c.say("All images are built.")
        return
    c.user(f"`docker build` of {app} is broken since the upgrade of node. Please repair it.")
    look_around(r, c)
    if way == "advances":
        errors = {
            "sh: corepack: not found": "RUN npm install -g corepack",
            "ERR_PNPM_OUTDATED_LOCKFILE  pnpm-lock.yaml is not up to date": "RUN pnpm install",
            "gyp ERR! find Python": "RUN apt-get update && apt-get install -y python3",
            "make: g++: No such file or directory": "RUN apt-get install -y build-essential",
            "error TS2307: Cannot find module '@scope/shared'": "COPY packages ./packages",
            "Error: ENOENT: no such file, open '/app/prisma/schema.prisma'": "COPY prisma ./prisma",
        }
        for place, (error, cure) in enumerate(errors.items()):
            c.act(r.pick("", "Build."), sh("docker build .", build(3 + place, error), 1, 30))
            c.act(f"Step {3 + place}.", sh(f"sed -i '{place + 4}i {cure}' Dockerfile"))
        c.act("", sh("docker build .", build(9), 0, 40))
        c.say("The image builds again.")
        return
    killed = "Killed  (pnpm run build: JavaScript heap out of memory)"
    c.act("Let me see.", sh(f"docker build -t {app}:dev .", build(7, killed), 1, r.dec(20, 60)))
    for number in range(r.num(11, 13)):
        if number == 3:
            r.begin()
        one = base[number] if number < 3 else r.pick(*base)
        said = voice(
            ["The build stage is killed.", "Same stage.", "Exit code 137.", "It fails at 7/9."],
            [
                f"I'll try {one} as the base.",
                f"Perhaps {one} helps.",
                f"Switching the base image to {one}.",
            ],
        )
        c.act(said, sh(f"sed -i '1s|.*|FROM {one} AS build|' Dockerfile"))
        flag = r.pick("", " --no-cache", " --progress=plain", " --pull")
        cmd = f"docker build{flag} -t {app}:dev ."
        c.act(r.pick("", "Build."), sh(cmd, build(7, killed), 1, r.dec(20, 60)))


@template(
    "pipelines", "claude-code codex openai-agents langgraph", "moves asked", difficulty="hard"
)
def settled_run(r: Run, way: str) -> None:
    """A run of the pipeline has long failed, and the agent looks whether it is green."""
    voice = Voice(r)
    app, run = r.pick(*_APPS), r.num(10**10, 9 * 10**10)
    jobs = ["lint", "unit", "e2e (1/2)", "e2e (2/2)", "image", "scan", "deploy-preview"]
    c = r.chat()
    ask = r.pick(
        f"gh run view {run}", f"gh run view {run} --json jobs,status", f"gh pr checks {app}"
    )

    def state(done: int, last: str) -> str:
        marks = ["✓" if n < done else "*" for n in range(len(jobs))]
        if last == "failure":
            marks[3] = "X"
        took = [r.num(20, 400) if way != LOOP else 40 + 9 * place for place in range(len(jobs))]
        shown = [
            f"{mark} {name}{'' if mark == '*' else f' in {took[place]}s'} (ID {run + place})"
            for place, (mark, name) in enumerate(zip(marks, jobs, strict=True))
        ]
        return f"{last.upper()} main {app} · {run}\nTriggered via push\n\nJOBS\n" + "\n".join(shown)

    words = ["Checking the pipeline.", "Is it through?", "Let me look at CI again.", "Status:", ""]
    if way == "asked":
        c.user("Look at the run once a minute for a quarter of an hour; page me if it turns red.")
        look_around(r, c)
        for _ in range(15):
            c.act(r.pick(*words), sh(ask, state(7, "success")))
            r.wait(50, 60)
        c.say("It stayed green for fifteen minutes.")
        return
    c.user(f"Push {app}, and merge it once the pipeline is green.")
    look_around(r, c)
    c.act("", sh("git push -u origin HEAD", f"To github.example:shop/{app}.git\n * [new branch]"))
    for done in range(1, 8 if way == "moves" else 4):
        c.act(r.pick(*words), sh(ask, state(done, "in_progress"), 0, r.dec(0.6, 2)))
        r.wait(30, 60)
    if way == "moves":
        c.act("", sh(ask, state(7, "success")))
        c.act(
            "Merge.", sh("gh pr merge --squash", f"✓ Squashed and merged pull request #{run % 999}")
        )
        c.say("Merged.")
        return
    for number in range(r.num(18, 22)):
        if number == 1:
            r.begin()
        said = voice(
            ["", "e2e (2/2) may still recover.", "Not green yet.", "I wait for the run.", "Hm."],
            ["Checking again.", "Let me see the status.", "Looking at the checks.", "Polling."],
            ["", "", "I merge as soon as it is green.", "Merging comes next."],
        )
        cmd = r.pick(ask, ask, f"sleep {r.pick(30, 45, 60)} && {ask}", f"{ask} | cat")
        c.act(said, sh(cmd, state(7, "failure"), 1, r.dec(0.6, 2)))
        r.wait(20, 60)


@template("training", "claude-code codex responses-kept gemini-cli", "grows asked")
def dead_log(r: Run, way: str) -> None:
    """A training has died, and its log is looked at to see whether it is done."""
    voice = Voice(r)
    name, last = f"run-{r.hex(4)}", r.num(3, 30) * 100
    c = r.chat()

    def line(step: int) -> str:
        return f"step {step:>6} | loss {3.2 - step / 9000:.4f} | lr 3.0e-04 | {r.dec(1, 2)} it/s"

    def gpu() -> str:
        return f"| 0  H100 80GB   {r.num(28, 34)}C  P0   {r.num(68, 74)}W / 700W |  2MiB | 0% |"

    looks = [f"tail -n 3 logs/{name}.log", f"tail -3 logs/{name}.log", f"tail -n 5 logs/{name}.log"]
    if way == "asked":
        c.user("Note the load of the idle GPU every minute for the report, twelve values.")
        look_around(r, c)
        for number in range(12):
            r.wait(55, 60)
            c.act(r.pick("", f"Value {number + 1}."), sh("nvidia-smi | grep H100", gpu()))
        c.say("The twelve values are in the table.")
        return
    c.user(f"The training {name} is under way. When it reaches step 9000, evaluate its weights.")
    look_around(r, c)
    frozen = "\n".join(line(last + 100 * n) for n in range(3))
    step = last
    for number in range(14 if way == "grows" else r.num(20, 24)):
        if number == 2:
            r.begin()
        pause = r.pick(60, 120, 180, 300)
        r.wait(pause, pause + 20)
        said = voice(
            ["", "Still training.", "Not at 9000 yet.", "The run goes on.", "I wait a little."],
            ["Let me check the log.", "Checking progress.", "How far is it?", "Looking again."],
        )
        if way == "grows":
            step = min(step + r.num(3, 9) * 100, 9000)
            out = "\n".join(line(step - 200 + 100 * n) for n in range(3))
            c.act(said, sh(looks[0], out))
            continue
        if number == 1 or (number > 2 and r.num(0, 3) == 0):
            c.act(said, sh("nvidia-smi | grep H100", gpu()))
        else:
            c.act(said, sh(f"sleep {pause}; {r.pick(*looks[:2])}", frozen, 0, pause))
    if way == "grows":
        c.act("", sh(f"python evaluate.py ckpt/{name}", f"accuracy {r.dec(0.7, 0.9, 4)}"))
        c.say("It is evaluated.")


@template("screens", "anthropic-mcp claude-code opencode", "wizard more")
def covered_button(r: Run, way: str) -> None:
    """A banner covers a button, so that clicks on it do nothing."""
    voice = Voice(r)
    shop, button = r.pick(*_APPS), r.pick("Continue", "Place order", "Buy now", "Pay")
    c = r.chat()

    def page(title: str, *rows: str) -> str:
        logs = f"- [{r.stamp('%H:%M:%S')}] [WARNING] slow network, {r.num(200, 900)} ms"
        refs = "\n".join(f"  - {row} [ref=e{r.num(10, 400)}]" for row in rows)
        return (
            f"### Page state\n- Page URL: https://{shop}.example/checkout\n- Page Title: {title}\n"
            f"### Console\n{logs}\n### Snapshot\n```yaml\n- main\n{refs}\n```"
        )

    if way == "wizard":
        c.user(f"Test the wizard of {shop} by hand: each page, then tell me what is unclear.")
        for number, name in enumerate(("Name", "Address", "Phone", "Plan", "Pay", "Terms", "End")):
            text = page(f"Step {number + 1}", f'textbox "{name}"', f'button "{button}"')
            c.act(r.pick("", f"{name}."), tool("browser_click", {"element": button}, text))
            c.act("", tool("browser_type", {"element": name, "text": r.pick(*_CAST)}, text))
        c.say("The plan page is unclear.")
        return
    if way == "more":
        c.user(f"List all reviews of {shop}: click 'Show more' until there are no more.")
        for number in range(14):
            rows = [f'text "{r.pick(*_CAST)}: {r.num(1, 5)} of 5, order {r.num(100, 999)}"'] * 1
            rows += [f'text "{12 + 12 * number} of 180"', 'button "Show more"']
            call = tool("browser_click", {"element": "Show more"}, page("Reviews", *rows))
            c.act(r.pick("", "More.", "The next ones."), call)
        c.say("These are all of them.")
        return
    c.user(f"Buy the test product in {shop} and tell me the number of the order.")
    rows = ['dialog "We value your privacy"', f'button "{button}"', 'text "1 product, 9.90"']
    c.act("", tool("browser_navigate", {"url": f"https://{shop}.example/"}, page("Pay", *rows)))
    for number in r.times(18, 22):
        if number == 2:
            r.begin()
        ref = f"e{r.num(10, 400)}"
        click = {"element": r.pick(button, f"{button} button"), "ref": ref}
        shown = page("Pay", *rows)
        call = r.pick(
            tool("browser_click", click, shown),
            tool("browser_click", click, shown),
            tool("browser_snapshot", {}, shown),
            tool("browser_wait_for", {"time": r.num(1, 5)}, shown),
        )
        said = voice(
            ["The page did not change.", "Still on the payment page.", "No order yet.", "OK."],
            [f"I click {button}.", "I try the button again.", "Let me go on.", "Once more."],
        )
        c.act(said if number else "To the order.", call)


@template("sandboxes", "codex openhands qwen-code", "granted", difficulty="easy")
def sandbox_wall(r: Run, way: str) -> None:
    """A sandbox has no network, and the same four ways to fetch a file are tried."""
    voice = Voice(r)
    file, host = f"fixtures-{r.num(10, 99)}.tar.zst", f"cdn{r.num(1, 9)}.example"
    c = r.chat()
    c.user(f"Fetch {file} from https://{host} and run the import on it.")
    look_around(r, c)
    ways = {
        f"curl -vfsSLO https://{host}/{file}": (
            f"* shutting down connection #0\ncurl: (6) Could not resolve host: {host}"
        ),
        f"wget -q https://{host}/{file}": f"wget: unable to resolve host address '{host}'",
        f"python3 -c 'import urllib.request as u; u.urlretrieve(\"https://{host}/{file}\")'": (
            "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>"
        ),
        f"ping -c1 {host}": f"ping: {host}: Temporary failure in name resolution",
    }
    commands = cycle(ways)
    for number in range(4 if way == "granted" else r.num(21, 24)):
        if number == 4:
            r.begin()
        cmd = next(commands) if number < 4 else r.pick(*ways)
        said = voice(
            ["That failed.", "No name resolution.", "The network may be slow.", "Let me see."],
            ["I'll use another tool.", "Trying once more.", "Perhaps it works now.", "Retry."],
        )
        said = said if number else "I fetch it."
        c.act(said, sh(cmd, ways[cmd], 6, r.dec(0.2, 9)))
    if way == LOOP:
        return
    c.say("There is no network here. May I have access to that host, or can you put it here?")
    c.user("Sorry, the host is open now.")
    cmd = next(iter(ways))
    c.act("Thanks.", sh(cmd, "", 0, r.dec(2, 9)))
    c.act("", sh(f"sha256sum {file}", f"{r.hex(64)}  {file}"))
    c.act("", sh(f"tar --zstd -xf {file}"))
    c.act("", sh("make import", f"imported {r.num(100, 900)} rows in {r.dec(1, 9)}s"))
    c.say("The import is through.")
