"""Edits: those that do not match, those that are undone, those that say too little."""

from __future__ import annotations

from bench.loops.field.cast import Act, edit, grep, read, sh, tool, write
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import HALF, Project, Voice, do, edit_error, quiet


@HALF.template("edit", "claude-code cline gemini-cli", "mended many", difficulty="easy")
def edit_that_never_matches(run: Run, way: str) -> None:
    """The text to replace is not in the file as the model writes it, and it never copies it."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    at = run.num(0, 4)
    path, name = project.path(at), project.call(at)
    rule = run.pick("skip drafts", "round only at the end", "log how many were skipped")
    chat.user(
        f"In {project.name}, {name} should {rule}. Do the same in the other modules that have "
        "such a function, then run the tests."
    )
    project.survey(chat, 4, 7, at)
    lines = project.body(at).split("\n")
    right = "\n".join(lines[1:4])
    wrongs = [
        right.replace("    ", "  "),
        right.replace("items", "entries"),
        "\n".join(line.rstrip() + " " for line in lines[2:5]),
        "\n".join(lines[1:3]) + "\n\n" + lines[4],
        right.replace("    ", "\t"),
    ]
    new = f"{lines[1]}\n    {project.mark} {rule}\n{lines[2]}"
    say = Voice(
        run,
        f"<edit>[Now|Let me] [change|update] {name} [so that it does what was asked|accordingly].",
        "<^read|^grep>The edit [failed|did not apply]. [Let me|I'll] [look at|view] the "
        "[exact|current] text.",
        "<edit>[I see|Ah], the [whitespace|indentation] [is different|differs]. [Trying|Let me "
        "try] again.",
        "<edit>[Let me|I'll] use a [smaller|larger|more exact] [snippet|block] this time.",
        "<^read|^grep>[Strange|Hmm]. [Let me|I'll] read the file [again|once more] and "
        "[retry|try the edit again].",
        "<edit>[I have|Now I have] the [exact|precise] content. [Applying|Making] the "
        "[edit|change].",
        first="[Now|Let me make] the change.",
    )
    if way == "many":
        for place in range(at, at + run.num(5, 7)):
            body = project.body(place).split("\n")
            do(chat, say, read(project.path(place), project.source(place)))
            if run.chance.random() < 0.5:
                old = body[1].replace("    ", "\t") if project.lang == "py" else body[1] + " "
                where = project.path(place)
                do(chat, say, edit(where, old, new, edit_error(run, where, old)))
            do(
                chat,
                say,
                edit(project.path(place), body[1], f"{body[1]}\n    {project.mark} {rule}"),
            )
            quiet(chat, sh(project.only(place), project.passed(run.num(4, 12)), takes=3.0))
        chat.say(f"All of these now {rule}; the tests pass.")
        return
    rounds = run.num(2, 3) if way == "mended" else run.num(9, 14)
    for number in range(rounds):
        wrong = run.chance.choice(wrongs)
        if number == 2:
            run.begin()
        do(chat, say, edit(path, wrong, new, edit_error(run, path, wrong)))
        if run.chance.random() < 0.75:
            again = read(path, project.source(at))
            found = f"{path}:{lines[0].count(' ') + 14}:{lines[0]}"
            do(chat, say, again if run.chance.random() < 0.75 else grep(name, found))
    if way == LOOP:
        for _ in run.times(4, 8):
            wrong = run.chance.choice(wrongs)
            do(chat, say, edit(path, wrong, new, edit_error(run, path, wrong)))
        return
    chat.act("I'll write the whole function anew.", edit(path, project.body(at), new))
    quiet(chat, sh(project.only(at), project.passed(run.num(5, 12)), takes=3.1))
    project.work(chat, run.num(9, 15), at + 1)
    chat.say("Done; all tests pass.")


_WRITES = {
    "qwen-code": ("write_file", "file_path", "params must have required property 'content'"),
    "cline": (
        "write_to_file",
        "path",
        "[ERROR] You did not provide a value for the required parameter 'content'. Please retry "
        "with complete response.",
    ),
    "opencode": (
        "write",
        "filePath",
        'The write tool was called with invalid arguments: [\n  {\n    "code": '
        '"invalid_type",\n    "expected": "string",\n    "path": [\n      "content"\n'
        '    ],\n    "message": "Invalid input: expected string, received undefined"\n  }\n].'
        "\nPlease rewrite the input so it satisfies the expected schema.",
    ),
}


@HALF.template("missing-content", "qwen-code cline opencode", "parts several", difficulty="easy")
def file_without_content(run: Run, way: str) -> None:
    """The content of a long file is cut off each time, and the call has only the path."""
    project = Project(run, "ts" if run.form == "cline" else "")
    chat = run.chat()
    project.earlier(chat)
    topic = run.pick("architecture handbook", "migration guide", "API reference", "test plan")
    path = f"docs/{topic.replace(' ', '-').lower()}.md"
    chat.user(f"Read the code of {project.name} and write a complete {topic} to {path}.")
    project.survey(chat, 5, 8)
    for place in run.some(range(9), run.num(2, 5)):
        quiet(chat, read(project.path(place), project.source(place)))
    name, key, error = _WRITES[run.form]
    say = Voice(
        run,
        f"[Now I'll|I'll now|Let me] write the [complete|full|whole] {topic}.",
        "[I have|I've gathered] [enough|all I need]. [Writing|Creating] the [file|document] now.",
        "[It seems|Apparently] the content [was missing|was not sent]. [Let me|I'll] try again.",
        "[I apologise|Sorry], I [left out|forgot] the content. [Here is|Writing] the "
        "[full|complete] [document|file].",
        "[Let me|I'll] [retry|send it again] with [both parameters|the content included].",
        f"[Let me|I'll] [create|write] the [file|{topic}] [properly|in one go] this time.",
        "The [tool|file] needs `content`. [Providing|Giving] it now.",
    )
    if way == "several":
        for place in run.some(range(9), run.num(7, 9)):
            where = f"docs/{project.words[place]}.md"
            if run.chance.random() < 0.4:
                do(chat, say, tool(name, {key: where}, error, 1))
            text = f"# {project.words[place].title()}\n\n{project.body(place)}\n"
            do(chat, say, write(where, text))
        chat.say("All parts are written.")
        return
    for number in range(3 if way == "parts" else run.num(16, 30)):
        if number == 2:
            run.begin()
        where = path if run.chance.random() < 0.85 else path.replace("docs/", "./docs/")
        do(chat, say, tool(name, {key: where}, error, 1))
    if way == LOOP:
        return
    chat.act(
        "The document is too long for one call: I'll write it in parts.",
        write(path, f"# {topic.title()}\n\nThis describes {project.name}.\n"),
    )
    for place in run.some(range(9), run.num(7, 9)):
        part = f"## {project.words[place].title()}\n\n{project.call(place)} lives in "
        text = f"{part}{project.path(place)}.\n\n{project.body(place)}\n"
        quiet(chat, read(project.path(place), project.source(place)))
        chat.act(f"[{place}] Next section.", write(path.replace(".md", f"-{place}.md"), text))
    chat.say(f"The {topic} is complete.")


@HALF.template("undo-redo", "claude-code codex openhands", "converging", difficulty="hard")
def edit_and_its_reverse(run: Run, way: str) -> None:
    """A change mends one test and breaks another; its reverse does the opposite; and so on."""
    project = Project(run)
    chat = run.chat()
    project.earlier(chat)
    a, b = run.some(range(8), 2)
    path = project.path(a)
    first, other = run.chance.choice(project.variants(a))
    chat.user(
        f"Two tests of {project.name} fail since yesterday: {project.case(a)} and "
        f"{project.case(b)}. Fix the code so that both pass. Don't touch the tests."
    )
    project.survey(chat, 4, 8, a)
    quiet(chat, sh(project.command, project.failed([a, b]), code=1, takes=6.2))
    fail = [project.words[a], project.words[b]]
    say = Voice(
        run,
        f"<edit>[That|This] [fixed|mends] the one but [breaks|broke] the {fail[1]} test.",
        f"<edit>[Now|So now] {fail[0]} passes, but the other one fails [again|instead].",
        "<edit>[Let me|I'll] [revert|undo] that and [think again|take the other approach].",
        "<edit>[Actually|Wait], the [earlier|previous] version was [right|correct] for "
        "[this|that] test.",
        "<edit>[Let me|I'll] put [the line|that] back and [check|rerun].",
        "<edit>The [two tests|tests] want [different|opposite] things. [Let me|I'll] [see|try "
        "the other].",
        first="I'll [change|adapt] what the total is made of.",
    )
    if way == LOOP:
        olds = (first, other)
        for number in range(run.num(9, 15)):
            if number == 2:
                run.begin()
            do(chat, say, edit(path, olds[number % 2], olds[1 - number % 2]))
            if run.chance.random() < 0.2:
                quiet(
                    chat,
                    sh(
                        f"git diff {path}",
                        f"@@ -31,7 +31,7 @@\n-{olds[number % 2]}\n+{olds[1 - number % 2]}",
                    ),
                )
            out = project.failed([(a, b)[number % 2]])
            do(chat, say, sh(project.command, out, code=1, takes=run.dec(4, 9)))
        return
    do(chat, say, edit(path, first, other))
    do(chat, say, sh(project.command, project.failed([a]), code=1, takes=6.0))
    do(chat, say, edit(path, other, first))
    do(chat, say, sh(project.command, project.failed([b]), code=1, takes=6.1))
    chat.act(
        "The callers differ. I'll read who calls it.",
        grep(
            project.call(a),
            f"{path}:31: {project.body(a).splitlines()[0]}\n{project.path(b)}:58: "
            f"{project.call(a)}(items, now)",
        ),
    )
    quiet(chat, read(project.path(b), project.source(b)))
    chat.act("The second caller needs it the other way.", project.change(b))
    do(chat, say, sh(project.command, project.failed([b], got="0"), code=1, takes=6.6))
    chat.act("Only the rounding is left.", project.change(b + 9))
    quiet(chat, sh(project.command, project.passed(), takes=6.4))
    project.work(chat, run.num(3, 8), 6)
    chat.say("Both pass now, and so does the rest.")


@HALF.template("formatter", "claude-code codex gemini-cli", "files settled", difficulty="medium")
def two_formatters(run: Run, way: str) -> None:
    """Two checks want opposite things of one line, and the agent obeys each in turn."""
    project = Project(run, "ts")
    chat = run.chat()
    project.earlier(chat)
    at = run.num(0, 8)
    path, line = project.path(at), run.num(12, 90)
    rule, bad_format = run.pick(
        ("max-len", "This line has a length of 104. Maximum allowed is 100"),
        ("operator-linebreak", "'||' should be placed at the end of the line"),
        ("indent", "Expected indentation of 6 spaces but found 8"),
        ("arrow-parens", "Expected parentheses around arrow function argument"),
        ("function-paren-newline", "Unexpected newline after '('"),
    )
    chat.user(f"Make `npm run lint` and `npm run format:check` of {project.name} pass.")
    project.survey(chat, 3, 6, at)
    say = Voice(
        run,
        "<^edit|prettier --write>[Now|So] [ESLint|the linter] is [unhappy|not happy] "
        "[again|with that line].",
        f"<^edit>[Let me|I'll] [fix|reformat] [line {line}|that line] [again|once more].",
        "<--write>[Now|Next] Prettier [complains|disagrees]. [Formatting|I'll format] it.",
        "<run lint|format:check>[Let me|I'll] run [both|the two checks] [again|once more].",
        "<run lint|^edit>[Almost there|Close]. [One|Just one] [problem|issue] [left|remaining].",
        "<--write>[Running|Let me run] the fixer [on this file|once more].",
        first="[First|Let me run] the linter.",
    )

    def lint(where: str, row: int, broken: bool) -> Act:
        head = f"\n> {project.name}@2.{run.num(1, 9)}.0 lint\n> eslint 'src/**/*.ts'\n\n"
        text = f"/srv/work/{where}\n  {row}:{row % 7 + 3}  error  {bad_format}  {rule}\n\n"
        bad = f"{head}{text}✖ 1 problem (1 error, 0 warnings)\n"
        return sh("npm run lint", bad if broken else head, broken, run.dec(3, 8))

    def style(where: str, broken: bool) -> Act:
        head = f"\n> {project.name}@2.4.0 format:check\n> prettier --check src\n\nChecking...\n"
        advice = "Run Prettier with --write to fix."
        bad = f"[warn] {where}\n[warn] Code style issues found in the above file. {advice}"
        good = "All matched files use Prettier code style!"
        return sh("npm run format:check", head + (bad if broken else good), broken, run.dec(1, 4))

    if way in (LOOP, "settled"):
        long = (
            f"    const open = items.filter((item) => item.{project.words[2]}Id && !item.closed);"
        )
        short = long.replace("((item)", "(\n      (item)").replace(");", ",\n    );")
        for number in range(run.num(5, 8) if way == LOOP else 2):
            if number == 1:
                run.begin()
            do(chat, say, lint(path, line, broken=True))
            do(chat, say, edit(path, short, long))
            do(chat, say, style(path, broken=True))
            do(
                chat,
                say,
                sh(f"npx prettier --write {path}", f"{path} {run.num(31, 90)}ms", takes=1.1),
            )
        if way == LOOP:
            return
        chat.act("The two disagree on this rule.", read("eslint.config.mjs", f"'{rule}': 'error'"))
        off = f"'{rule}': 'off', // prettier decides"
        chat.act("Prettier shall decide.", edit("eslint.config.mjs", f"'{rule}': 'error'", off))
        quiet(chat, lint("", 0, broken=False))
        quiet(chat, style("", broken=False))
        project.work(chat, run.num(7, 12), at + 1)
        chat.say("Both checks pass; Prettier has the last word now.")
        return
    for place in range(at, at + run.num(5, 7)):
        where, row = project.path(place), run.num(10, 120)
        do(chat, say, lint(where, row, broken=True))
        old = project.body(place).split("\n")[3]
        do(chat, say, edit(where, old, old.replace("if (", "if (\n      ")))
        if run.chance.random() < 0.5:
            do(chat, say, style(where, broken=True))
            out = f"{where} {run.num(31, 90)}ms"
            do(chat, say, sh(f"npx prettier --write {where}", out, takes=1.1))
    do(chat, say, lint("", 0, broken=False))
    do(chat, say, style("", broken=False))
    chat.say("Both checks pass.")
