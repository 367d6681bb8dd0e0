"""Work in a repository: linking, containers, snapshots, logs, translations."""

from __future__ import annotations

import json

from bench.loops.field.cast import Act, edit, grep, read, sh, todo, write
from bench.loops.field.run import LOOP, Half, Run, cycle

HALF = Half("second")

CRATES = ("halyard", "mudlark", "sextant", "capstan", "fathom", "binnacle", "bowsprit")


@HALF.template("same failure", "claude-code openhands qwen-code swe-agent", "symbols disk")
def linker(r: Run, way: str) -> None:
    c, lib = r.chat(), r.pick(*CRATES)
    missing = [
        f"{lib}::{name}(unsigned int)"
        for name in r.some(("pack", "seek", "mix", "flush", "tune", "crop"), 5)
    ]

    def ninja(left: list[str]) -> Act:
        done = r.num(40, 60)
        lines = "\n".join(
            f"/usr/bin/ld: {one.split('::')[1][:4]}.cc.o: undefined reference to `{one}'"
            for one in left
        )
        head = f"[{done}/61] Linking CXX executable bin/{lib}_tool"
        if not left:
            return sh("cmake --build build -j4", f"{head}\n[61/61] Generating {lib}.1", takes=30)
        tail = (
            "collect2: error: ld returned 1 exit status\nninja: build stopped: subcommand failed."
        )
        return sh(
            "cmake --build build -j4",
            f"FAILED: bin/{lib}_tool\n{head}\n{lines}\n{tail}",
            1,
            r.dec(20, 50),
        )

    c.user(f"Our CMake build of {lib} does not link any more. Could you sort that out?")
    if way == "symbols":
        for number in range(5):
            c.act("What is undefined now?", ninja(missing[number:]))
            c.act(
                "I list its source.",
                edit("CMakeLists.txt", f"# {number}", f"src/part{number}.cc # {number + 1}"),
            )
        c.act("And link.", ninja([]))
        c.say(f"{lib}_tool links.")
    elif way == "disk":
        full = (
            "fatal error: error writing to /tmp/ccQ.s: No space left on "
            "device\ncompilation terminated."
        )
        c.act("Build it.", sh("cmake --build build -j4", full, 1, 8))
        c.act("Perhaps it was a moment only.", sh("cmake --build build -j4", full, 1, 9))
        c.act("", sh("df -h /tmp", f"tmpfs  2.0G  2.0G  0  100% /tmp  # {r.hex(4)}", takes=0.1))
        c.act("Clean up.", sh("rm -rf /tmp/cc*.s /tmp/core.*"))
        c.act("Build it.", ninja([]))
        for part in r.some(("wav", "ogg", "mp3", "aiff", "opus", "flac", "midi"), 6):
            c.act("Does it run?", sh(f"bin/{lib}_tool {part}", f"{part}: {r.num(2, 9)} files, ok"))
        c.say("The disk was full; now it links.")
    else:
        c.act("I start with a build.", ninja(missing[:3]))
        c.act("The sources are there.", sh("ls src", "\n".join(f"part{n}.cc" for n in range(5))))
        r.begin()
        for _ in r.times(14, 19):
            c.act(
                r.mix("Rebuilding.|I build again.|Another build.|Let's see the build."),
                ninja(missing[:3]),
            )


@HALF.template("missing tool", "codex gemini-cli opencode cline", "vendored")
def no_docker(r: Run, way: str) -> None:
    c, image = r.chat(), r.pick("postgres:18", "redis:9", "rabbitmq:5", "minio:2026")
    what = image.split(":")[0]
    sock = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
    proxy = "503 Service Unavailable from proxy.corp:3128 (egress is disabled for this sandbox)"
    tries = [
        (f"docker compose up -d {what}", sock, 1),
        (f"sudo docker run -d {image}", "sudo: a terminal is required to read the password", 1),
        ("systemctl start docker", "Failed to connect to bus: No such file or directory", 1),
        (f"podman run -d {image}", "podman: command not found", 127),
        ("newgrp docker", "newgrp: group 'docker' does not exist", 1),
        ("dockerd-rootless.sh &", "[rootlesskit:parent] error: newuidmap not found", 1),
        ("service docker start", "docker: unrecognized service", 1),
        (f"nerdctl run -d {image}", "nerdctl: command not found", 127),
        ("chmod 666 /var/run/docker.sock", "chmod: Operation not permitted", 1),
        (
            f"DOCKER_HOST=tcp://127.0.0.1:2375 docker pull {image}",
            "Cannot connect to the Docker daemon",
            1,
        ),
        (
            f"apt-get update && apt-get install -y {what}",
            f"Err:1 http://deb.debian.org trixie {proxy}",
            100,
        ),
        (f"pip download {what}-binary", f"ERROR: HTTPSConnectionPool: {proxy}", 1),
        (f"npx -y {what}-memory-server", f"npm error 503 {proxy}", 1),
        (f"go install example.org/{what}@latest", f"go: module lookup failed: {proxy}", 1),
        (f"find / -iname '*{what}*' -perm -u+x 2>/dev/null", "", 1),
        (f"ls ~/.cache/{what}", "No such file or directory", 2),
        ("usermod -aG docker $(whoami)", "usermod: Permission denied. cannot lock /etc/passwd", 1),
        ("ctr images pull docker.io/library/" + image, "ctr: failed to dial containerd.sock", 1),
        ("unshare -r dockerd", "unshare: unshare failed: Operation not permitted", 1),
        (f"wget https://mirror.invalid/{what}.tgz", proxy, 8),
        (f"cargo install {what}-lite", f"error: download of config.json failed: {proxy}", 101),
    ]
    c.user(f"Run the integration tests; they need {what}.")
    c.act(
        "",
        sh(
            "make integration",
            "> vitest run --config vitest.integration.ts\n\n ❯ "
            "test/orders.int.ts (9 tests | 9 failed)\n"
            "   × places an order\n     → connect ECONNREFUSED 127.0.0.1: is "
            f"{what} running?\n ⎯⎯ Failed "
            "Suites 1 ⎯⎯\n FAIL  test/orders.int.ts\nError: Hook timed out in "
            "10000ms.\n ❯ test/setup.ts:"
            "14:3\n\n Test Files  1 failed (1)\n      Tests  9 failed (9)\nmake: "
            "*** [integration] Error 1",
            2,
            4,
        ),
    )
    shown = tries[:6] if way == "vendored" else tries
    for number, (cmd, out, code) in enumerate(shown):
        if number == 6:
            r.begin()
        c.act(
            r.mix("Then|Alternatively|What if I", f"start {what}", "like this?|another way?"),
            sh(cmd, out, code, r.dec(0.2, 9)),
        )
    if way == "vendored":
        c.act("The repository may carry one.", sh("ls third_party", f"{what}-embedded\nREADME"))
        c.act(
            "It does.",
            sh(
                f"third_party/{what}-embedded/start --port 0", f"listening on {r.num(30000, 60000)}"
            ),
        )
        c.act("", sh("make integration", f"{r.num(30, 60)} passed, 2 skipped", 0, 44))
        c.say("The integration tests pass with the embedded server.")


@HALF.template(
    "unchanged failure", "gemini-cli opencode openhands mini-swe-agent", "shrinks bisect"
)
def snapshot_test(r: Run, way: str) -> None:
    c, part = r.chat(), r.pick("Basket", "Rating", "Navbar", "Tooltip", "Pager")
    gap, want = r.num(3, 7), r.num(8, 12)

    def jest(failed: int, diff: str = "") -> Act:
        marks = "\n"
        if failed:
            marks = (
                f"● {part} › renders\n\n- Snapshot  - {failed}\n+ Received  + "
                f"{failed}\n\n-   gap: {want}px;\n+   gap: {gap}px;{diff}"
            )
        text = (
            f"{'FAIL' if failed else 'PASS'} src/{part}.test.tsx ({r.dec(1, 4)} s)\n  {marks}\n\n"
            f"Test Suites: {int(failed > 0)} failed, 31 total\nTests:       "
            f"{failed} failed, {212 - failed} passed\n"
            f"Time:        {r.dec(4, 19)} s, estimated 12 s\nRan all test suites."
        )
        return sh("npx jest --ci", text, int(failed > 0), r.dec(4, 19))

    c.user(
        f"Why does the snapshot of <{part}> differ? Mend the styles, and leave "
        "the snapshot as it is."
    )
    c.act("", jest(6))
    if way == "bisect":
        low, high = 0, 256
        c.act("I bisect.", sh("git bisect start HEAD v3.0", "Bisecting: 128 revisions left"))
        while high - low > 2:
            middle = (low + high) // 2
            bad = r.num(0, 1)
            low, high = (low, middle) if bad else (middle, high)
            c.act("Test this one.", jest(6 * bad))
            mark = "bad" if bad else "good"
            text = (
                f"Bisecting: {(high - low) // 2} revisions left\n[{r.hex(40)}] styles: {r.hex(4)}"
            )
            c.act(f"It is {mark}.", sh(f"git bisect {mark}", text))
        c.act("Found; revert it.", sh("git revert --no-edit HEAD", f"[main {r.hex(7)}] Revert"))
        c.act("", jest(0))
    for turn in range({LOOP: r.num(9, 11), "shrinks": 6, "bisect": 0}[way]):
        if turn == 2:
            r.begin()
        rule = r.pick("padding", "margin", "flex-gap", "row-gap", "line-height", "inset")
        sheet = f"src/{part}.module.css"
        say = r.mix("The gap comes from|I think that it is|It must be", f"{rule}.")
        c.act(say, edit(sheet, f".root{turn} {{", f".root{turn} {{ {rule}: {want + turn}px;"))
        left = 5 - turn if way == "shrinks" else 6
        c.act(
            r.mix("Once more through jest.|Does it match now?"),
            jest(left, f" /* {left} */" if way == "shrinks" else ""),
        )
    if way != LOOP:
        c.say(f"<{part}> matches its snapshot.")


@HALF.template("undo and redo", "claude-code codex cline mini-swe-agent", "measures")
def base_image(r: Run, way: str) -> None:
    c, tag = r.chat(), r.num(22, 26)
    faults = {
        f"node:{tag}-alpine": "gyp ERR! stack Error: not found: python3\nnpm error code 1",
        f"node:{tag}-slim": (
            "Error: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.41' not found"
        ),
    }
    c.user("`docker build .` fails in CI; get the image to build, the smaller the better.")
    names = cycle(faults)
    now = next(names)
    if way == "measures":
        sizes = [
            f"node:{tag}-{kind}" for kind in ("trixie", "bookworm", "slim", "alpine", "distroless")
        ]
        for name in sizes:
            c.act("I measure this base.", edit("Dockerfile", f"FROM {now}", f"FROM {name}"))
            text = (
                f"#12 exporting layers done\n#12 writing image sha256:{r.hex(64)} "
                f"done\n{r.num(80, 990)} MB"
            )
            c.act(
                "Build.", sh("docker build -t app . && docker images app", text, 0, r.dec(20, 70))
            )
            now = name
        c.say(f"{now} is the smallest that builds.")
        return
    for turn in r.times(9, 12):
        following = next(names)
        if turn == 2:
            r.begin()
        c.act(
            r.mix(
                "Go back to|Switching to|I change the base to",
                f"{following}.",
                "That should build.|This has what we need.",
            ),
            edit("Dockerfile", f"FROM {now}", f"FROM {following}"),
        )
        text = (
            f"#9 [4/7] RUN npm ci\n#9 {r.dec(3, 30)} {faults[following]}\nERROR: "
            "failed to solve: exit code: 1"
        )
        c.act("Build it.", sh("docker build -t app .", text, 1, r.dec(9, 60)))
        now = following


@HALF.template("reading again", "gemini-cli cline qwen-code swe-agent", "pages rereads")
def crash_log(r: Run, way: str) -> None:
    c, log = r.chat(), f"/var/log/{r.pick(*CRATES)}/crash.log"
    c.user(f"Read {log} and the code, and write down why the daemon died in CAUSE.md.")

    def lines(at: int) -> str:
        return "\n".join(
            f"2027-01-{n % 28 + 1:02} 0{n % 9}:1{n % 6}:33 [{n * 7919 % 97}] INFO "
            f" sweep {n * 31 % 101} took {n * 17 % 23} ms"
            for n in range(at, at + 12)
        )

    looks = (
        sh(f"tail -n 12 {log}", lines(400)),
        sh("git log --oneline -5", "a41f000 Sweep faster\n77be210 Bump deps\n0c1d2e3 Add metrics"),
        read(
            "src/sweep.c",
            '#include <stdlib.h>\n#include "pool.h"\n\n/* Frees what nobody '
            "uses. */\nvoid sweep(struct pool "
            "*p) {\n\tfor (size_t n = 0; n < p->used; n++) {\n\t\tstruct cell *c = p->cells[n];\n"
            "\t\tif (c->refs == 0)\n\t\t\tfree(pop(p));\n\t}\n\tpool_trim(p);\n}",
        ),
        sh("git show --stat HEAD", "a41f000 Sweep faster\n src/sweep.c | 4 ++--"),
    )
    if way == "pages":
        for page in range(14):
            at = page * 12
            c.act(f"Lines {at} to {at + 11}.", sh(f"sed -n '{at + 1},{at + 12}p' {log}", lines(at)))
    elif way == "rereads":
        for number in range(5):
            c.act(
                "",
                sh(
                    "git pull --rebase",
                    f"Updating {r.hex(7)}..{r.hex(7)}\n src/sweep.c | {number + 1} +",
                ),
            )
            c.act(
                "It has changed; I read it.",
                read("src/sweep.c", f"void sweep(void) {{ free({number}); }}"),
            )
    else:
        for turn, look in zip(r.times(18, 23), cycle(looks), strict=False):
            if turn == 4:
                r.begin()
            c.act(
                r.mix(
                    "Let me take|I take",
                    "another|a closer",
                    "look at",
                    "the evidence.|what happened.|this part.",
                    "|It will tell.",
                ),
                look,
            )
    if way != LOOP:
        c.act(
            "Now I can write it.",
            write("CAUSE.md", f"The pool is freed twice, at sweep {r.num(2, 90)}."),
        )
        c.say("CAUSE.md says it: a double free in sweep().")


@HALF.template("plan churn", "codex openhands claude-code opencode", "ticks")
def plan_only(r: Run, way: str) -> None:
    c, page = r.chat(), r.pick("wish list", "loyalty page", "store finder", "size guide")
    goals = ["sketch_schema", "serve_data", "render_page", "cover_with_tests", "measure_load"]
    c.user(f"We need the {page} by tonight. The drafts are in design/.")
    state = dict.fromkeys(goals, "pending")
    c.act("A plan first.", todo(**state))
    if way == LOOP:
        r.begin()
        for turn in r.times(14, 19):
            order = goals[turn % 3 :] + goals[: turn % 3]
            c.act(
                r.mix(
                    "I adjust|I restructure|I clarify",
                    "the steps",
                    "so that they are clear.|before the start.|for a better order.",
                ),
                todo(**dict.fromkeys(order, "pending")),
            )
        return
    for goal in goals:
        state[goal] = "in_progress"
        c.act(f"On to: {goal}.", todo(**state))
        c.act("", write(f"web/{goal}.ts", f"export const {goal} = '{r.hex(6)}'\n"))
        state[goal] = "completed"
    c.act("All ticked.", todo(**state))
    c.say(f"The {page} is in web/.")


@HALF.template("verify again", "claude-code gemini-cli openhands mini-swe-agent", "bench")
def curl_check(r: Run, way: str) -> None:
    c, port = r.chat(), r.num(4000, 9000)
    url = f"http://127.0.0.1:{port}/healthz"
    ask = "Add a health route to server.py that answers with the version."
    if way == "bench":
        ask += " Then measure it: 16 single requests, cold; I want the times one by one."
    c.user(ask)
    c.act("", edit("server.py", "routes = []", "routes = [('/healthz', health)]"))
    c.act("Start it.", sh("python server.py & sleep 1", f"listening on {port}"))

    def curl(flag: str = "-si") -> Act:
        head = (
            "HTTP/1.1 200 OK\ndate: "
            f"{r.stamp('%a, %d %b %Y %H:%M:%S GMT')}\ncontent-type: application/json"
        )
        return sh(
            f"curl {flag} {url}", f'{head}\nx-request-id: {r.hex(12)}\n\n{{"version": "2.8.0"}}'
        )

    c.act("Does it answer?", curl())
    if way == "bench":
        for number in range(16):
            took = r.dec(0.001, 0.09, 6)
            c.act(
                f"No. {number + 1}.",
                sh(f"curl -s -o /dev/null -w '%{{time_total}}' {url}", f"{took}"),
            )
        c.say("The median is 41 ms; all 16 times are above.")
        return
    r.begin()
    for turn in r.times(14, 18):
        say = r.mix(
            "It works.|The route answers.|Good, 200.",
            "To be sure|To be thorough|As a last check",
            "I ask again.|one more request.",
        )
        c.act(say, curl(("-si", "-i", "-s -i")[turn % 3]))


@HALF.template("stuck at the end", "claude-code qwen-code openhands codex", "through")
def translations(r: Run, way: str) -> None:
    c = r.chat()
    tongues = r.some(
        ("da", "fi", "el", "hu", "it", "lt", "mt", "nl", "pl", "pt", "ro", "sk", "sl", "sv"), 13
    )
    c.user("Translate locales/en.json into the 13 languages of the list, and validate each file.")
    for tongue in tongues:
        file = f"locales/{tongue}.json"
        c.act(
            f"Now {tongue}.",
            write(file, json.dumps({"hello": f"{tongue}-{r.hex(4)}", "bye": r.hex(5)})),
        )
        c.act("Validate.", sh(f"npx i18n-lint {file}", "✔ 0 errors, 0 warnings"))
    if way == "through":
        c.act("", sh("git diff --stat", f" 13 files changed, {r.num(90, 200)} insertions(+)"))
        c.say("All 13 languages are there.")
        return
    fault = (
        "✖ locales/_meta.json: key 'plural.other' is missing in schema v4 "
        "(i18n-lint.config is read-only)\n\n    rule: meta/plural  severity: error\n    expected: "
        "{ plural: { rules: { other: string } } }\n\n1 error, 0 warnings in 1 "
        "file; 27 files skipped"
    )
    for turn in r.times(9, 11):
        if turn == 2:
            r.begin()
        new = json.dumps({"plural": {"other": r.pick("{n}", "#", "%d", "{{n}}", "many")}, "v": 4})
        c.act(
            r.mix(
                "The meta file needs|I add", "the plural rule|that key", "again.|in another form."
            ),
            write("locales/_meta.json", new),
        )
        c.act("Validate.", sh("npx i18n-lint locales/_meta.json", fault, 1, r.dec(1, 2)))


@HALF.template("compacted", "opencode claude-code codex qwen-code", "chapters", "compacted", "hard")
def thesis_pdf(r: Run, way: str) -> None:
    c, line = r.chat(), r.num(100, 900)
    c.user("thesis.tex must compile with lualatex, without warnings about references.")
    told: list[str] = []
    c.summary = lambda: "\n".join(
        (
            "- goal: compile thesis.tex with lualatex",
            f"- settled: {'; '.join(told) or 'nothing yet'}",
            "- pending: the next error of the log",
        )
    )
    if way == LOOP:
        fault = (
            f"! LaTeX Error: File `fontspec-{r.hex(3)}.sty' not found.\nl.{line} "
            f"\\begin\n{{document}}\n!  ==> Fatal error"
        )
        for turn in r.times(11, 13):
            if turn == 3:
                r.begin()
            word = r.pick("usepackage", "RequirePackage", "input", "PassOptionsToPackage")
            c.act(
                f"I load it by \\{word}.",
                edit("thesis.tex", f"% {turn}", f"\\{word}{{fontspec}} % {turn + 1}"),
            )
            c.act(
                "Compile.", sh("lualatex -interaction=nonstopmode thesis", fault, 1, r.dec(3, 15))
            )
        return
    for number, name in enumerate(
        r.some(("intro", "theory", "setup", "data", "results", "outlook", "appendix"), 7)
    ):
        told.append(f"{name}.tex has no open references")
        fault = f"LaTeX Warning: Reference `{name}:{r.hex(4)}' on page {r.num(1, 200)} undefined"
        c.act(
            "Compile.",
            sh(
                "lualatex -interaction=nonstopmode thesis", f"{fault}\n{7 - number} warnings", 0, 12
            ),
        )
        c.act(
            f"That is in {name}.",
            read(f"{name}.tex", f"\\section{{{name}}} see \\ref{{{r.hex(4)}}}"),
        )
        c.act("A label was lost.", edit(f"{name}.tex", "\\section", f"\\label{{{name}}}\\section"))
    c.say("No warnings are left.")


@HALF.template(
    "kept history",
    "responses-kept responses-kept responses-kept responses-kept",
    "clips",
    difficulty="hard",
)
def video_clips(r: Run, way: str) -> None:
    c, film = r.chat(), r.pick("harbour", "glacier", "market", "viaduct")
    c.user(f"Cut {film}.mov into the clips of cuts.csv, as AV1.")
    c.act("", sh("wc -l cuts.csv", "14 cuts.csv"))
    banner = "ffmpeg version 8.1 Copyright (c) 2000-2026 the FFmpeg developers"
    if way == "clips":
        for number in range(14):
            out = (
                f"{banner}\nframe= {r.num(300, 900)} fps={r.num(20, 90)} Lsize= "
                f"{r.num(900, 9000)}KiB"
            )
            c.act(
                "The next cut.",
                sh(f"ffmpeg -ss {number * 30} -t 30 -i {film}.mov c{number}.mkv", out, 0, 20),
            )
        c.say("All 14 clips are cut.")
        return
    fault = (
        f"[in#0 @ 0x{{}}] moov atom not found\nError opening input file {film}.mov: "
        "Invalid data found"
    )
    extras = (
        "-fflags +genpts",
        "-err_detect ignore_err",
        "-analyzeduration 100M",
        "-f mov",
        "-probesize 50M",
        "-y",
    )
    for turn, extra in zip(r.times(16, 20), cycle(extras), strict=False):
        if turn == 3:
            r.begin()
        say = r.mix("Perhaps with|I add|Then with", extra)
        c.act(
            say,
            sh(
                f"ffmpeg {extra} -i {film}.mov c0.mkv",
                f"{banner}\n{fault.format(r.hex(12))}",
                183,
                2,
            ),
        )


@HALF.template("searching code", "claude-code opencode gemini-cli qwen-code", "owners", "elided")
def who_calls(r: Run, way: str) -> None:
    c, name = r.chat(), r.pick("FooterBuilder", "LegacyClock", "PaperSize", "TaxTable")
    hit = f"core/{name}.java:{r.num(9, 60)}: public class {name} {{"
    c.user(f"Is {name} used by anybody? If it is not, delete it.")
    forms = (
        name,
        f"new {name}",
        f"import .*{name}",
        f"{name}\\.",
        name.lower(),
        f"class {name}",
        f'"{name}"',
    )
    if way == LOOP:
        c.act("I look for uses.", grep(name, hit, "."))
        r.begin()
        for _, form in zip(r.times(15, 19), cycle(forms), strict=False):
            c.act(
                r.mix(
                    "Let me check|I should check|Check",
                    "whether it is used|for callers|other references",
                    "elsewhere.|somewhere.|again.",
                ),
                grep(form, hit, r.pick(".", "core", "src", "app")),
            )
        return
    for number in range(9):
        owner = f"app{number}/{r.hex(3)}/Main.java"
        c.act(
            "Another caller.",
            grep(f"{name}.*{number}", f"{owner}:{r.num(3, 80)}: {name} x", f"app{number}"),
        )
        c.act("It gets the new class.", edit(owner, name, f"New{name}"))
    c.act("", sh(f"git rm core/{name}.java", f"rm 'core/{name}.java'"))
    c.say("It had nine callers; all use the new class now.")


@HALF.template("session", "claude-code gemini-cli openhands", "repl codemod")
def python_shell(r: Run, way: str) -> None:
    """Small commands in one shell: an interpreter's session, one change to many files."""
    c, table = r.chat(), r.pick("sales", "trips", "meters", "grades")
    c.user(f"Look into {table}.parquet with Python, and tell me what you find odd.")
    missing = (
        'Traceback (most recent call last):\n  File "<stdin>", line '
        "1\nModuleNotFoundError: No module named 'pyarrow'"
    )
    if way == "repl":
        for column in (
            "id",
            "day",
            "price",
            "city",
            "tax",
            "kind",
            "lat",
            "lon",
            "note",
            "rank",
            "vat",
            "unit",
        ):
            cmd = f"python -c \"import d; print(d.t('{table}').{column}.describe())\""
            c.act("", sh(cmd, f"{column}: n={r.num(900, 999)} nulls=0 max={r.num(9, 999)}"))
        c.say("Nothing is odd but the ids.")
    elif way == "codemod":
        c.say("The file is fine. Anything else?")
        c.user("Then replace np.float by float in the 20 notebooks.")
        for number in range(20):
            c.act("", sh(f"sed -i 's/np.float\\b/float/g' nb/{number:02}_{r.hex(3)}.py"))
        c.say("Replaced in all 20.")
    else:
        for turn in r.times(15, 19):
            if turn == 2:
                r.begin()
            code = r.pick(
                "pd.read_parquet(p)", "pd.read_parquet(p).head()", "pq.read_table(p)", "pl.scan(p)"
            )
            c.act(
                r.mix(
                    "Let me load|Loading|I read", "the table|the data|the file", "like this.|first."
                ),
                sh(f'python -c "{code}"', missing, 1),
            )
