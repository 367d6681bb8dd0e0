"""Drift: plain repetition, plans instead of work, tools that are not there, files read in rings."""

from __future__ import annotations

from bench.loops.field.cast import edit, grep, read, sh, todo, tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import HALF, PEOPLE, Project, Voice, do, quiet
from bench.loops.field.wire import Json


@HALF.template(
    "listing", "claude-code qwen-code mini-swe-agent", "tree arrivals", difficulty="easy"
)
def directory_listed_again(run: Run, way: str) -> None:
    """The agent lists one directory again and again before a file that it never writes."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    folder = project.path(1).rsplit("/", 1)[0]
    name = (
        f"{run.pick('limits', 'theme', 'overrides', 'routes')}.{run.pick('json', 'toml', 'yaml')}"
    )
    want = run.num(9, 13)
    if way == "tree":
        chat.user(f"Write down what is in each folder of {project.name}, for the new colleague.")
    elif way == "arrivals":
        chat.user(
            f"Scans come in at var/in of {project.name}, one by one. Look about once a "
            f"minute; when {want} are there, run `make import`."
        )
    else:
        chat.user(f"Add a file {name} with our defaults to {folder} of {project.name} and load it.")
    project.survey(chat, 4, 8)
    rows = "\n".join(
        f"-rw-r--r-- 1 ci ci {run.num(200, 9000):5} Nov {run.num(2, 28):2} "
        f"{run.num(7, 21):02}:{run.num(0, 59):02} {word}"
        for word in project.words
    )
    say = Voice(
        run,
        "[Let me|I'll] [check|look at|see] [the directory|what is there] [first|again|].",
        "[Now|OK], [let me|I'll] [list|check] the [folder|files].",
        "[Before|First, before] [writing|I write] the file, [let me|I'll] [check|verify] the "
        "[folder|path].",
        "[Let me|I'll] [make sure|verify] that the [directory|folder] exists.",
        empty=0.45,
    )
    if way == "arrivals":
        files: list[str] = []
        while len(files) < want:
            run.wait(30, 90)
            if run.chance.random() < 0.75:
                files.append(
                    f"-rw-r--r-- 1 scan scan {run.num(9000, 90000)} {run.stamp('%H:%M')} "
                    f"{run.hex(6)}.tif"
                )
            chat.act(
                f"{len(files)} so far." * run.num(0, 1),
                sh("sleep 60; ls -l var/in", "\n".join(files)),
            )
        chat.act("All are there.", sh("make import", f"{want} files read", takes=9.0))
        chat.say("The import is done.")
        return
    if way == LOOP:
        plain = run.chance.random() < 0.4
        for number in range(run.num(16, 38)):
            if number == 2:
                run.begin()
            command = (
                f"ls -la {folder}" if plain else run.pick(f"ls -la {folder}", f"ls -l {folder}/")
            )
            do(chat, say, sh(command, rows))
        return
    parts = [
        "",
        "api",
        "jobs",
        "store",
        "views",
        "tools",
        "tests",
        "docs",
        "deploy",
        "i18n",
        "mail",
    ]
    for number in range(run.num(14, 20)):
        where = f"{folder}/{parts[number % 11]}{'/v2' if number > 10 else ''}".rstrip("/")
        rows = "\n".join(
            f"-rw-r--r-- 1 ci ci {run.num(200, 9000):5} Nov {run.num(2, 28):2} "
            f"{run.num(7, 21):02}:{run.num(0, 59):02} {word}"
            for word in run.some(project.words, run.num(2, 6))
        )
        do(chat, say, sh(f"ls -la {where}", rows))
        if run.chance.random() < 0.25:
            quiet(chat, read(f"{where}/{project.words[number % 9]}", project.source(number)))
    chat.say("The overview of the folders is written.")


@HALF.template("unknown-tool", "opencode langgraph crewai", "found renamed", difficulty="easy")
def tool_that_is_not_there(run: Run, way: str) -> None:
    """The agent calls a tool that is not offered, is told so, and calls it again."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    missing = run.pick(
        "apply_diff", "create_pull_request", "run_tests", "send_message", "sql_query"
    )
    missing = "run_tests" if way == "renamed" else missing
    chat.user(f"Log skipped items in all modules of {project.name}, test, and report the result.")
    project.survey(chat, 3, 6)
    project.work(chat, run.num(2, 5))
    names = "run_command, read_file, edit_file, write_file, search_code, set_plan"
    error = {
        "opencode": f"Model tried to call unavailable tool '{missing}'. Available tools: invalid, "
        "bash, read, edit, write, grep, todowrite.",
        "langgraph": f"Error: {missing} is not a valid tool, try one of [{names}].",
        "crewai": f"Action '{missing}' don't exist, these are the only available Actions: {names}.",
    }.get(run.form, f"Error: The function {missing} is not defined. Available: {names}")
    say = Voice(
        run,
        f"[Now|Let me] [call|use] {missing} [for this|].",
        f"[I'll|Let me] [use|try] [the tool|{missing}] [again|once more].",
        "[The tool|It] [was not found|failed]. [Retrying|I'll retry] [with other arguments|it].",
        "[Let me|I'll] [make|issue] the [call|request] [properly|correctly] [this time|].",
        first=f"[Now|Next] with {missing}.",
    )
    for number in range(run.num(16, 40) if way == LOOP else 3):
        if number == 2:
            run.begin()
        args: Json = run.pick(
            {"target": project.name}, {"target": "."}, {"target": project.path(0), "all": True}
        )
        do(chat, say, tool(missing, args, error, 1, takes=0.1))
    if way == "renamed":
        for place in range(run.num(9, 12)):
            args = {"target": project.test(place), "part": place // 9 + 1}
            act = tool(
                "project_run_tests", args, project.passed(run.num(3, 30)), takes=run.dec(1, 9)
            )
            chat.act("It is called otherwise." * (place == 0), act)
        chat.say("That is done for all modules.")
        return
    if way != LOOP:
        chat.act(
            "I'll do it with the tools that there are.", sh("git diff --stat", "5 files changed")
        )
        project.work(chat, run.num(9, 15), 4)
        chat.say("All modules are done.")


@HALF.template("plans", "claude-code qwen-code codex", "working", difficulty="medium")
def plan_without_work(run: Run, way: str) -> None:
    """The plan is written, worded anew and put in another order, and nothing of it is done."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    words = project.words
    chat.user(f"Move the modules of {project.name} to the new logger. Plan it, then do it.")
    project.survey(chat, 4, 8)
    say = Voice(
        run,
        "[Let me|I'll] [update|refine|reorder] the [plan|list|todos].",
        "[Let me|I'll] [make|break] [the plan|it] [more detailed|into smaller steps].",
        "[Now|OK], [I have|there is] a [clear|good] plan. [Starting|Let me start] [with it|now].",
        "[First|Before I begin], [let me|I'll] [set|mark] [the status|what is next].",
        "[Good|Right]. [The plan|It] [needs|should have] [one more|a small] change.",
        empty=0.3,
        first="[I'll|Let me] make a plan.",
    )
    if way == LOOP:
        verbs = ("move", "migrate", "convert", "port")
        for number in range(run.num(16, 36)):
            if number == 2:
                run.begin()
            chosen = run.some(words[:5], run.num(4, 5))
            verb = run.pick(*verbs)
            items = {f"{verb}_{word}": "pending" for word in chosen}
            items[f"{verb}_{chosen[0]}"] = run.pick("in_progress", "pending")
            if run.chance.random() < 0.15:
                do(chat, say, read(project.path(0), project.source(0)))
            else:
                do(chat, say, todo(**items))
        return
    count = run.num(6, 8)
    for place in range(count):
        items = {
            f"move_{word}": "completed"
            if at < place
            else ("in_progress" if at == place else "pending")
            for at, word in enumerate(words[:count])
        }
        do(chat, say, todo(**items))
        quiet(chat, read(project.path(place), project.source(place)))
        quiet(chat, project.change(place))
    quiet(chat, sh(project.command, project.passed(), takes=8.0))
    chat.say("All modules use the new logger.")


@HALF.template("rebase", "claude-code codex gemini-cli", "commits resolved", difficulty="medium")
def same_conflict_again(run: Run, way: str) -> None:
    """A rebase stops at a conflict, is aborted and begun anew, and stops at the same."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    at, branch = run.num(0, 8), f"feature/{project.words[3]}-{run.num(10, 900)}"
    chat.user(f"Rebase {branch} of {project.name} onto main and push it.")
    project.survey(chat, 3, 6)
    commits = [
        f"{run.hex(7)}... {project.verbs[k % 9].title()} {project.words[k % 9]}s" for k in range(16)
    ]
    total = run.num(14, 16)
    say = Voice(
        run,
        "<--abort>[Let me|I'll] [abort|abort this] and [try|start] [again|afresh|with another "
        "strategy].",
        "<status|diff>[There is|Git reports] a conflict [in|again in] one file. [Let me|I'll] "
        "look [at it|].",
        "<git rebase (?!--)>[Trying|Let me try|I'll try] the rebase [again|once more].",
        "<status>[Let me|I'll] [see|check] the [status|state] [first|].",
        "<git (add|rebase)>[Next|Going on|Continuing].",
        empty=0.3,
        first="[Now|Let me start] the rebase.",
    )

    def conflict(number: int, place: int) -> str:
        path = project.path(place)
        return (
            f"Rebasing ({number}/{total})\nAuto-merging {path}\nCONFLICT (content): Merge "
            f"conflict in {path}\nerror: could not apply {commits[number - 1]}\nhint: Resolve "
            "all conflicts manually"
        )

    if way != "commits":
        path = project.path(at)
        for number in range(run.num(7, 10) if way == LOOP else 2):
            if number == 1:
                run.begin()
            command = (
                f"git rebase {run.pick('main', 'origin/main', '-X patience main', '--merge main')}"
            )
            do(chat, say, sh(command, conflict(3, at), code=1, takes=1.2))
            if run.chance.random() < 0.7:
                short = f"UU {path}"
                line = project.body(at).splitlines()[1]
                diff = f"++<<<<<<< HEAD\n {line}\n++=======\n++>>>>>>> {commits[2]}"
                do(chat, say, run.pick(sh("git status --short", short), sh("git diff", diff)))
            do(chat, say, sh("git rebase --abort", ""))
        if way == LOOP:
            return
        chat.act(
            "I'll resolve it by hand.", sh("git rebase main", conflict(3, at), code=1, takes=1.2)
        )
        quiet(chat, read(path, f"<<<<<<< HEAD\n{project.source(at)}\n>>>>>>> {commits[2]}"))
        chat.act("Both sides are needed.", edit(path, "<<<<<<< HEAD\n", ""))
        quiet(
            chat,
            sh(f"git add {path} && GIT_EDITOR=true git rebase --continue", "Successfully rebased."),
        )
        quiet(chat, sh(project.command, project.failed([at]), code=1, takes=8.0))
        project.work(chat, run.num(7, 12), at)
        chat.say("The branch is rebased, and the tests pass.")
        return
    number = 0
    while number < total:
        number = min(total, number + run.num(1, 3))
        command = "git rebase main" if number < 4 else "GIT_EDITOR=true git rebase --continue"
        do(chat, say, sh(command, conflict(number, number), code=1, takes=1.1))
        path, (line, theirs) = project.path(number), run.chance.choice(project.variants(number))
        if run.chance.random() < 0.6:
            quiet(
                chat,
                read(
                    path, f"<<<<<<< HEAD\n{line}\n=======\n{theirs}\n>>>>>>> {commits[number - 1]}"
                ),
            )
        quiet(chat, edit(path, "<<<<<<< HEAD\n" + line, line))
        quiet(chat, sh(f"git add {path}", ""))
    done = f"Successfully rebased and updated refs/heads/{branch}."
    quiet(chat, sh("GIT_EDITOR=true git rebase --continue", done))
    quiet(chat, sh(project.command, project.passed(), takes=9.0))
    chat.say("The branch is rebased.")


@HALF.template(
    "ranges", "swe-agent openhands langgraph", "through split", shows="trimmed", difficulty="hard"
)
def file_read_in_rings(run: Run, way: str) -> None:
    """A long file is read in parts; by the end the start is forgotten, and is read again."""
    project = Project(run)
    chat = run.chat()
    path, parts = project.path(0), run.num(7, 9)
    who = run.pick(*PEOPLE)
    if way == "through":
        chat.user(f"Read all of the log that {who} left in var/app.log and list the odd entries.")
    else:
        chat.user(f"{who} says that {path} of {project.name} is too long. Split it into modules.")
    project.survey(chat, 2, 4)
    say = Voice(
        run,
        "[Let me|I'll] [read|view|look at] [the next|the following] [part|lines].",
        "[Going|Let me go] [on|through the rest].",
        "[Let me|I'll] [get|first get] [an overview|the whole picture] [of the file|].",
        "[I need|I want] to [see|know] [this part|the lines] [too|before I change anything].",
        empty=0.35,
    )
    texts = [
        "\n\n\n".join(project.body(place + 9 * part) for part in range(4)) for place in range(parts)
    ]
    if way == "split":
        for place, text in enumerate(texts):
            start = place * 40 + 1
            do(chat, say, sh(f"sed -n '{start},{start + 39}p' {path}", text))
        for place in run.some(range(parts), parts):
            start, part = place * 40 + 1, project.path(place + 1)
            if run.chance.random() < 0.5:
                again = sh(f"sed -n '{start},{start + 39}p' {path}", texts[place])
                chat.act("These lines once more, to move them.", again)
            chat.act(
                f"Lines {start} on go to {part}.",
                sh(f"sed -n '{start},{start + 39}p' {path} > {part}"),
            )
            left = f"{(parts - place) * 40 + run.num(1, 30)} {path}"
            quiet(
                chat,
                sh(
                    f"wc -l {path}; {project.only(place)}",
                    f"{left}\n{project.passed(run.num(3, 20))}",
                ),
            )
        chat.say("The file is split.")
        return
    if way == LOOP:
        for number in range(run.num(parts * 3, parts * 4 + 3)):
            if number == parts:
                run.begin()
            place = number % parts
            start = place * 40 + 1
            if number > parts and run.chance.random() < 0.1:
                found = "\n".join(
                    f"{at * 40 + 1}:{text.splitlines()[0]}" for at, text in enumerate(texts)
                )
                do(chat, say, sh(f"grep -n '{texts[0][:4]}' {path}", found))
            else:
                do(chat, say, sh(f"sed -n '{start},{start + 39}p' {path}", texts[place]))
        return
    for number in range(run.num(18, 26)):
        start = number * 40 + 1
        text = "\n".join(
            f"{run.stamp('%H:%M:%S')} {run.pick('INFO', 'INFO', 'WARN', 'ERROR')} "
            f"{run.pick(*project.words)} {run.hex(6)} took {run.num(2, 900)} ms"
            for _ in range(40)
        )
        do(chat, say, sh(f"sed -n '{start},{start + 39}p' var/app.log", text))
        if run.chance.random() < 0.15:
            id = text.split()[3]
            quiet(chat, grep(id, f"var/app.log:{start}:{text.splitlines()[0]}", "var"))
    chat.say("The odd entries are listed above.")
