"""Tasks of a terminal: crack, train, recover, serve, build and wait."""

from __future__ import annotations

from bench.loops.field.cast import Act, read, sh, todo, tool, write
from bench.loops.field.run import LOOP, Chat, Run, cycle
from bench.loops.field.seventh.common import (
    FORWARD,
    after,
    half,
    listing,
    snake,
    talk,
    words,
)


def _look(run: Run, chat: Chat, names: tuple[str, ...], least: int = 3, most: int = 7) -> None:
    """Look round in /app: each step shows something else."""
    found = run.some(("gcc", "python3", "curl", "perl", "git", "make"), 3)
    kind = "directory" if "." not in names[0] else run.pick("data", "ASCII text", "data, version 5")
    doings = [
        ("Let me see what is here.|", sh("ls -la /app", listing(run, names))),
        (
            "Which system?|",
            sh("uname -a; nproc", f"Linux {run.hex(12)} 6.8.0 x86_64\n{run.num(1, 8)}"),
        ),
        (
            "Room on the disk?|",
            sh("df -h /app", f"overlay  {run.num(60, 200)}G  {run.num(9, 50)}G"),
        ),
        (
            "Tools?|What is installed?",
            sh(f"which {' '.join(found)}", "\n".join(f"/usr/bin/{one}" for one in found)),
        ),
        (f"Now {names[0]}.|", sh(f"file /app/{names[0]}", f"/app/{names[0]}: {kind}")),
        ("A plan.|", todo(look_round="completed", do_it="in_progress", check="pending")),
        ("How big?|", sh(f"wc -c /app/{names[-1]}", f"{run.num(900, 9_000_000)} /app/{names[-1]}")),
    ]
    for say, act in doings[: run.num(least, most)]:
        chat.act(run.mix(say), act)


def _xxd(run: Run, lines: int, start: int = 0) -> str:
    rows = []
    for number in range(lines):
        raw = run.hex(32)
        pairs = " ".join(raw[place : place + 4] for place in range(0, 32, 4))
        rows.append(f"{start + number * 16:08x}: {pairs}  {run.hex(6)}..{run.hex(6)}..")
    return "\n".join(rows)


@half.template("exhausted", "claude-code codex swe-agent", "chunks masks")
def cracking(run: Run, way: str) -> None:
    """John has run through the word lists without a hit; they are run again."""
    chat = talk(run, way, "You have a terminal in /app.")
    file = f"{run.pick('secrets', 'backup', 'archive', 'vault')}.{run.pick('7z', 'zip', 'kdbx')}"
    chat.user(f"Find the password of /app/{file} and write what is inside to /app/solution.txt.")
    _look(run, chat, (file, "README.md", "wordlists"))
    chat.act("Extract the hash.", sh(f"2john.pl /app/{file} > /app/hash", ""))
    lists = [f"/app/wordlists/{name}.txt" for name in ("top10k", "names", "rock", "english")]
    tools = (
        "john --wordlist={} hash",
        "hashcat -m 11600 -a 0 hash {}",
        "john --wordlist={} --rules",
    )
    tried = cycle([(one, each) for one in lists for each in tools[:2]])
    shapes = (
        "".join(run.pick("?l", "?d", "?u", "?s") for _ in range(4 + n // 40)) for n in range(120)
    )
    masks = list(dict.fromkeys(shapes))
    for number in run.times(23, 33):
        if number == 8 and way == LOOP:
            run.begin()
        guesses = run.num(9_000, 14_000)
        if way == LOOP:
            words_, tool = next(tried)
            if number >= 8:
                words_, tool = run.pick(*lists), run.pick(*tools[:2])
            command = f"cd /app && {tool.format(words_)}"
            out = (
                "Using default input encoding: UTF-8\nLoaded 1 password hash (7z, 7-Zip AES "
                f"[SHA256 256/256 AVX2])\n0g 0:00:00:{run.num(10, 40)} DONE 0g/s {guesses}p/s\n"
                "Session completed."
            )
            if tool.startswith("hashcat"):
                out = "Session..........: hashcat\nStatus...........: Exhausted\nRecovered: 0/1"
            say = words(
                run,
                after(number, "No password yet.|Exhausted.|Nothing found.|0g again.|"),
                f"Let me try {words_} with {tool.split()[0]}.|{tool.split()[0]} on this list.|"
                "Perhaps it was missed; run it again.|Another run.",
            )
            chat.act(say, sh(command, out, 0, 30))
            if run.chance.random() < 0.2:
                chat.act(
                    "Did it find any?", sh("john --show hash", "0 password hashes cracked, 1 left")
                )
        elif way == "chunks":
            low = number * 100_000
            out = f"lines {low + 1}-{low + 100_000}: 0 hits, {guesses} tries/s, {run.dec(7, 12)} s"
            say = words(run, f"Chunk {number + 1}.|Nothing there. Next chunk.|Go on.", quiet=0.4)
            chat.act(say, sh(f"./try.sh --from {low + 1} --count 100000 rock.txt", out, 1, 12))
        else:
            mask = masks[number]
            out = f"Status...: Exhausted\nGuess.Mask...: {mask}\nProgress.: {guesses * 977} (100%)"
            say = words(run, f"Mask {mask}.|Next mask.|No hit; the next.", quiet=0.3)
            chat.act(say, sh(f"hashcat -a 3 hash '{mask}'", out, 1, 20))
    if way != LOOP:
        secret = f"{snake(run)}{run.num(1, 99)}"
        chat.act(
            "A hit!", sh("john --show hash", f"{file}:{secret}\n\n1 password hash cracked, 0 left")
        )
    chat.say("No luck." if way == LOOP else "Found; see /app/solution.txt.")


@half.template("same-result", "openhands qwen-code responses-kept", "sweep rising", "whole", "hard")
def repeated_training(run: Run, way: str) -> None:
    """A model has to reach an accuracy; three configurations are trained over and over."""
    chat = talk(run, way, "You have a terminal in /app.")
    goal = run.dec(0.9, 0.95)
    chat.user(
        f"Train a classifier on /app/data/train.csv. It has to reach an accuracy of {goal} on "
        "valid.csv within 150 MB. Save it as /app/model.bin. Seeds are fixed in train.py."
    )
    _look(run, chat, ("train.py", "data", "valid.csv"))
    configs = [
        f"--lr {lr} --dim {dim} --epoch {run.pick(5, 10, 25)}"
        for lr, dim in ((0.1, 50), (0.5, 100), (1.0, 50), (0.25, 200))
    ]
    known = {one: run.dec(goal - 0.09, goal - 0.03, 4) for one in configs}
    best = goal - 0.12
    for number in run.times(18, 28):
        if number == len(configs) and way == LOOP:
            run.begin()
        if way == LOOP:
            config = configs[number] if number < len(configs) else run.pick(*configs)
            value = known[config]
            say = words(
                run,
                after(
                    number,
                    after(number, f"Below {goal}.|Not enough yet.|Close, but not there.|Hmm.|"),
                ),
                f"Let me try {config}.|Perhaps it converges better this time.|Another run.|"
                "Train again with these.|Other parameters:",
            )
        elif way == "sweep":
            config = f"--lr {run.dec(0.05, 1.2, 3)} --dim {16 + 8 * number} --minn {number % 5}"
            value = run.dec(goal - 0.09, goal - 0.005, 4)
            say = words(run, f"Point {number + 1} of the grid.|Next.|{value}. Next.", quiet=0.4)
        else:
            best = best + run.dec(0.001, 0.0075, 4)
            config = f"--resume ckpt-{number:03} --epoch {number * 2 + 2}"
            value = round(best, 4)
            say = words(run, "Good.|Better.|Still rising.|Two more epochs.|It learns.", quiet=0.4)
        loss = round(1.9 - value * (1.5 if way == LOOP else run.dec(1.3, 1.6)), 4)
        out = (
            f"Read {run.num(11, 12)}M words\nProgress: 100.0% words/sec/thread: "
            f"{run.num(90_000, 140_000)} lr:  0.000000 avg.loss: {loss} ETA:   0h 0m 0s\n"
            f"valid accuracy {value:.4f}"
        )
        chat.act(say, sh(f"python train.py {config}", out, 0, run.dec(40, 180)))
        if value >= goal:
            break
    chat.say(f"The best is below {goal}." if way == LOOP else "model.bin has the best of them.")


@half.template("same-result", "codex cline openhands", "carve pages")
def recovery(run: Run, way: str) -> None:
    """A damaged database is opened with the same few commands, and stays malformed."""
    chat = talk(run, way, "You have a terminal in /app.")
    name = f"{run.pick('orders', 'ledger', 'trunc', 'users')}.db"
    chat.user(f"/app/{name} was cut off by a crash. Recover what rows you can to /app/rows.json.")
    _look(run, chat, (name, f"{name}-wal", "notes.txt"))
    table = snake(run).split("_")[1]
    bad = "file is not a database"
    commands = [
        (f"sqlite3 {name} .dump", f"Error: {bad}", "Let me dump it."),
        (f"sqlite3 {name} 'PRAGMA integrity_check'", f"Error: {bad} (26)", "Check the integrity."),
        (
            f"sqlite3 {name} .recover | sqlite3 new.db",
            f"sql error: {bad} (26)",
            "Try to recover it.",
        ),
        (f"sqlite3 new.db 'SELECT * FROM {table}'", f"Error: no such table: {table}", "Any rows?"),
        (f"cp {name} copy.db && sqlite3 copy.db .tables", f"Error: {bad}", "Perhaps on a copy."),
        (
            f"python3 -c \"import sqlite3; print(sqlite3.connect('{name}').execute('select 1 from "
            f"{table}').fetchall())\"",
            f"sqlite3.DatabaseError: {bad}",
            "With Python, then.",
        ),
    ]
    rows = 0
    for number in run.times(19, 31):
        if number == len(commands) and way == LOOP:
            run.begin()
        if way == LOOP:
            command, out, doing = commands[number] if number < 6 else run.pick(*commands)
            mood = "The file is not recognised.|Not a database, it says.|Hmm.|OK.|That failed.|"
            chat.act(words(run, after(number, mood), doing), sh(command, out, 1))
        elif way == "pages":
            rows += run.num(0, 31)
            low = 4096 * number
            out = f"{_xxd(run, 3, low)}\nleaf page, {run.num(1, 30)} cells; {rows} rows so far"
            say = words(run, f"Page {number}.|Next page.|{rows} rows.", quiet=0.5)
            chat.act(say, sh(f"./page.py {name} {number}", out))
        else:
            rows += run.num(1, 12)
            pattern = f"{run.hex(4)}{number:02x}"
            say = words(run, "Another header.|These parse.|Go on.", quiet=0.4)
            out = f"0x{run.hex(5)}: {pattern} -> {rows} rows in rows.json"
            chat.act(say, sh(f"./carve.py --magic {pattern} --append rows.json", out))
    chat.say("The file cannot be read." if way == LOOP else f"{rows} rows are in rows.json.")


@half.template("same-failure", "gemini-cli mini-swe-agent responses-kept", "sites hardening")
def bad_gateway(run: Run, way: str) -> None:
    """nginx answers 502 as nothing listens behind it; its file is rewritten and reloaded."""
    chat = talk(run, way, "You are root on a fresh Debian.")
    host, port = f"{snake(run).replace('_', '-')}.example.com", run.num(3_000, 9_000)
    task = f"Serve the app of /srv/app at http://{host}/ through nginx (port {port} behind it)."
    if way != LOOP:
        task += " Then set up each of the sites listed in /srv/sites.txt alike."
    chat.user(task)
    _look(run, chat, ("app.py", "requirements.txt"), 3, 5)
    gateway = (
        "HTTP/1.1 502 Bad Gateway\nServer: nginx/1.26.2\nDate: {date}\nContent-Type: text/html\n"
        "Connection: keep-alive\n\n<html><head><title>502 Bad Gateway</title></head>"
    )
    file = f"/etc/nginx/sites-available/{host}"
    options = ("proxy_http_version 1.1;", "proxy_buffering off;", "proxy_read_timeout 90;")
    date = "%a, %d %b %Y %H:%M:%S GMT"
    for number in run.times(9, 14):
        if number == 3 and way == LOOP:
            run.begin()
        site = host if way == LOOP else f"{snake(run).split('_')[1]}{number}.example.com"
        upstream = run.pick("127.0.0.1", "localhost", "[::1]") if way == LOOP else "127.0.0.1"
        where = port if way == LOOP else port + number
        text = (
            f"server {{\n  listen 80;\n  server_name {site};\n  location / {{\n    proxy_pass "
            f"http://{upstream}:{where};\n    {run.pick(*options)}\n  }}\n}}\n"
        )
        chat.act(
            words(
                run,
                after(
                    number,
                    "Still 502.|Bad gateway. The proxy settings must be wrong.|Let me rewrite the "
                    "file.|"
                    "Let me adjust the upstream.|Perhaps localhost resolves to IPv6.",
                )
                if way == LOOP
                else f"Now {site}.|{FORWARD}|The next site.",
            ),
            write(file if way == LOOP else f"/etc/nginx/sites-available/{site}", text),
        )
        ok = "nginx: configuration file /etc/nginx/nginx.conf test is successful"
        reload = run.pick("systemctl reload nginx", "nginx -s reload", "service nginx restart")
        chat.act(words(run, "Reload.|", quiet=0.4), sh(f"nginx -t && {reload}", ok))
        out = gateway.format(date=run.stamp(date))
        if way != LOOP:
            fine = f"HTTP/1.1 200 OK\nServer: nginx/1.26.2\nDate: {run.stamp(date)}\n"
            out = f'{fine}Content-Length: {run.num(300, 9_000)}\nETag: "{run.hex(12)}"'
            if way == "hardening" and run.chance.random() < 0.3:
                out = out.replace("200 OK", f"301 Moved Permanently\nLocation: https://{site}/")
        command = f"curl -sI -H 'Host: {site}' http://127.0.0.1/"
        chat.act(words(run, "Test.|curl:|Does it answer?", quiet=0.4), sh(command, out))
    chat.say("nginx is set up." if way == LOOP else "All sites answer.")


_FILES = (
    "README.md",
    "main.c",
    "hosts",
    "passwd",
    "fstab",
    "notes.txt",
    "src",
    "docs",
    "Makefile",
    "setup.py",
    "build",
    "tests",
    "init.d",
    "ssl",
    "apt",
    "cron.d",
    "zork.z5",
    "LICENSE",
    "bin",
)
_PAGES = (
    "Language Region Keyboard Network Hostname Domain Proxy Mirror Clock Timezone Disk Partitions "
    "Encryption Swap Filesystem Users Password Groups Packages Desktop Printer SSH Updates "
    "Firewall "
    "Bootloader Summary Firmware Finish"
)


@half.template(
    "stuck-screen", "langgraph openhands anthropic-mcp", "installer adventure", "whole", "easy"
)
def pager(run: Run, way: str) -> None:
    """A terminal hangs in an editor or a pager; keys are sent and the screen stays."""
    chat = talk(run, way, "You see a tmux session. send_keys types into it and shows the screen.")
    task = {
        LOOP: "Rebase the branch feature onto main in /app/repo and resolve what conflicts.",
        "installer": "Install the system in this VM by its text installer; take the defaults.",
        "adventure": "Play /app/zork.z5 until you have found as many rooms as you can.",
    }
    chat.user(task[way])
    for path in ("/app", "/app/repo", "/root", "/etc")[: run.num(3, 4)]:
        screen = f"$ ls {path}\n{' '.join(run.some(_FILES, run.num(3, 8)))}\n$ "
        chat.act("", run_keys(f"ls {path}", screen))
    if way == LOOP:
        for branch in ("git fetch", "git switch feature", "git rebase main"):
            chat.act(
                words(run, "Next command."), run_keys(branch, f"$ {branch}\n{run.hex(7)} ok\n$ ")
            )
    page = "\n".join(
        [f"commit {run.hex(40)}", f"Author: dev <dev@{run.hex(4)}.example.com>", "", "    Fix"]
    )
    screens = [f"{page}\n~\n~\n-- INSERT --", f"{page}\n~\n~\n(END)", f"{page}\n~\n:q:wq:q!^C^C"]
    stuck = run.pick(*screens)
    rooms = ("hall", "cellar", "attic", "cave", "garden", "shaft", "library", "bridge")
    sides = ("north", "south", "east", "west", "up", "down", "northeast", "southwest")
    for number in run.times(16, 26):
        if number == 1 and way == LOOP:
            run.begin()
        if way == LOOP:
            keys, doing = run.pick(
                ("q", "I'll press q."),
                (":q", "Let me leave it with :q."),
                (":wq", "Write and quit."),
                ("C-c", "Send Ctrl-C.|Interrupt it."),
                ("Enter", "Press Enter."),
                ("Escape", "Escape first."),
                (":q!", "Quit without saving."),
                ("C-d", "Ctrl-D, then."),
                ("", "Wait a little.|Let me look at the screen."),
            )
            mood = "The screen has not changed.|Still in there.|The terminal seems to wait.|Hm.|"
            chat.act(words(run, after(number, mood), doing), run_keys(keys, stuck))
        elif way == "installer":
            name = f"{_PAGES.split()[number]} ({number + 1}/{len(_PAGES.split())})"
            box = f"| [*] default  [ ] custom ({run.num(2, 40)} options) |"
            screen = f"+---[ {name} ]---+\n{box}\n| <Back>  <Next> |"
            chat.act(
                words(run, f"{name}: the default.|Next page.|", quiet=0.4),
                run_keys("Enter", screen),
            )
        else:
            room = f"{run.pick('Dusty', 'Cold', 'Long', 'Dark', 'Round')} {run.pick(*rooms)}"
            thing = run.pick("lamp", "sword", "rope", "leaflet", "bottle", "rug", "coin", "bell")
            screen = f"{room}\nYou see a {thing} here. Moves: {number + 1}  Score: {number * 5}"
            chat.act(
                words(run, "Onwards.|A new room.|", quiet=0.5), run_keys(run.pick(*sides), screen)
            )
    chat.say("The terminal hangs." if way == LOOP else "That is it.")


def run_keys(keys: str, screen: str) -> Act:
    """Return a call that types keys and shows the screen."""
    return tool("send_keys", {"keys": keys, "wait_seconds": 1}, screen, takes=1.2)


@half.template("dead-process", "claude-code gemini-cli opencode", "building restoring")
def watching_nothing(run: Run, way: str) -> None:
    """A job was killed long ago; its log is read every minute, and has the same last line."""
    chat = talk(run, way, "You have a terminal in /app.")
    what = run.pick("kernel", "browser engine", "database", "compiler")
    chat.user(f"Build the {what} in /app/src from source and put the binaries to /app/out.")
    _look(run, chat, ("src", "configure", "Makefile"))
    total = run.num(2_000, 6_000)
    done = run.num(200, 500)
    chat.act(
        "Configure.", sh("cd /app/src && ./configure", f"checking for gcc... gcc\n{run.hex(6)}")
    )
    chat.act(
        "Start in the background.",
        sh("nohup make -j4 > build.log 2>&1 &", f"[1] {run.num(300, 900)}"),
    )
    seen = [f"[{done + n}/{total}] CC src/{snake(run)}.o" for n in range(3)]
    for _ in run.times(2, 4):
        done += run.num(60, 200)
        seen = [f"[{done + n}/{total}] CC src/{snake(run)}.o" for n in range(3)]
        chat.act(words(run, "How far?|"), sh("sleep 60; tail -3 build.log", "\n".join(seen), 0, 60))
    if way == LOOP:
        dead = run.pick(
            "make[1]: *** [Makefile:{}: src/{}.o] Killed", "Killed", "gcc: fatal error: Killed"
        )
        seen = [*seen[:2], dead.format(run.num(90, 900), snake(run))]
        chat.act(words(run, "How far?|"), sh("sleep 60; tail -3 build.log", "\n".join(seen), 0, 60))
        run.begin()
    for _ in run.times(18, 30):
        nap = run.pick(30, 60, 60, 90, 120)
        if way != LOOP:
            done = min(done + run.num(40, 160), total - 1)
            seen = [f"[{done + n}/{total}] CC src/{snake(run)}.o" for n in range(3)]
            if way == "restoring" and run.chance.random() < 0.15:
                seen.append(f"src/{snake(run)}.c:{run.num(9, 900)}: warning: unused variable")
        say = words(
            run,
            "Still building.|The build takes its time.|Let me wait a bit more.|It is at this file.|"
            "Compilation goes on.|I'll check again.|Wait for the build.",
            quiet=0.25,
        )
        command = f"sleep {nap}; {run.pick('tail -3 build.log', 'tail -n 3 /app/src/build.log')}"
        chat.act(say, sh(command, "\n".join(seen), 0, nap))
    chat.say("It is still under way." if way == LOOP else "Nearly there; it will be done soon.")


_PACKAGES = (
    "tqdm joblib numexpr patsy seaborn statsmodels networkx shapely fiona rtree nltk regex "
    "sentencepiece sacremoses lightgbm catboost optuna shap plotly bokeh pyarrow h5py zarr dask"
)


@half.template(
    "version-seesaw", "swe-agent claude-code codex", "requirements resolves", "whole", "hard"
)
def pins(run: Run, way: str) -> None:
    """Two packages want other versions of a third; it goes up and down between them."""
    chat = talk(run, way, "You have a terminal in /app.")
    many = " There are some forty scripts; get each to run." if way == "requirements" else ""
    chat.user(f"Get /app/demo.py to run in this container; its packages clash.{many}")
    _look(run, chat, ("demo.py", "requirements.txt"))
    one, other, base = run.some(("numba", "scipy", "gensim", "spacy", "umap", "xgboost"), 3)
    low, high = f"1.{run.num(19, 23)}.{run.num(0, 5)}", f"2.{run.num(0, 3)}.{run.num(0, 4)}"
    names = run.some(_PACKAGES.split(), 17)
    faults = {
        low: f"ImportError: {one} requires {base}>=2.0, found {low}",
        high: f"AttributeError: module '{base}' has no attribute 'float_' (needed by {other})",
    }
    for number in run.times(10, 15):
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            version = (low, high)[number % 2]
            package = f"{base}=={version}"
            error = (
                f'Traceback (most recent call last):\n  File "demo.py", line 3\n{faults[version]}'
            )
            say = words(
                run,
                f"{one} needs another {base}.|A clash of versions.|So {base} has to change.|Hmm.",
                f"Let me install {version}.|Pin {base}.|Go to {version} then.|Try {package}.",
            )
            script = "demo.py"
        else:
            package = f"{names[number]}=={run.num(0, 9)}.{run.num(0, 30)}.{run.num(0, 9)}"
            script = f"{snake(run)}.py" if way == "requirements" else "demo.py"
            error = f"ModuleNotFoundError: No module named '{names[number + 1]}'"
            say = words(run, f"{FORWARD}|Another one is missing.|Install {package}.")
        pip = run.pick(
            f"pip install '{package}'", f"pip install -q {package}", f"uv pip install {package}"
        )
        good = f"Collecting {package}\nSuccessfully installed {package.replace('==', '-')}"
        chat.act(say, sh(pip, good, 0, run.dec(2, 9)))
        chat.act(words(run, "Run it.|And now?", quiet=0.4), sh(f"python {script}", error, 1, 2))
    if way != LOOP:
        chat.act("All there?", sh("python demo.py", f"ok {run.hex(8)}", 0, 4))
    chat.say("It runs." if way != LOOP else f"{one} and {other} cannot live together.")


@half.template("finished-task", "codex cline mini-swe-agent", "files", "compacted")
def written_again(run: Run, way: str) -> None:
    """The answer is in its file; the model writes it anew and checks it, without an end."""
    chat = talk(run, way, "You have a terminal in /app.")
    file = f"/app/{run.pick('answer', 'result', 'solution', 'flag')}.txt"
    secret = f"{run.pick('FLAG', 'KEY', 'ans')}{{{run.hex(8)}-{snake(run)}}}"
    done: list[str] = []
    if way == LOOP:
        chat.user(f"Decode /app/cipher.bin and write the text to {file}.")
        chat.summary = lambda: f"The task: decode cipher.bin. {secret} was found and is in {file}."
    else:
        chat.user(
            f"Decode each of /app/in/*.bin and write its text to /app/out/NAME.txt; see {file}."
        )
        chat.summary = lambda: f"Decoded so far: {', '.join(done) or 'none'}. The rest remains."
    _look(run, chat, ("cipher.bin", "decode.py"), 4, 7)
    chat.act(
        "It is XOR with a short key.", sh("python decode.py --guess", f"key length 7: {secret}")
    )
    chat.act(f"Write it to {file}.", write(file, secret))
    chat.act("Check.", sh(f"cat {file}", secret))
    if way == LOOP:
        run.begin()
    for number in run.times(20, 30):
        if way == LOOP:
            say = words(
                run,
                "The task is complete.|The file is there.|Everything is as asked.|Done.|",
                "Let me verify the content.|Let me make sure that it is written.|One more check.|"
                "I'll write it without a newline.|Let me confirm the format.",
            )
            act = run.pick(
                read(file, secret),
                sh(f"cat {file}", secret),
                sh(f"printf '%s' '{secret}' > {file} && cat {file}", secret),
                sh(f"ls -l {file}", f"-rw-r--r-- 1 root root {len(secret)} {file}"),
                write(file, secret),
                sh(f"xxd {file} | head -2", f"00000000: {secret.encode().hex()[:32]}"),
            )
        else:
            name = f"{snake(run)}{number}"
            done.append(name)
            text = f"{snake(run)} {snake(run)} {run.hex(10)}"
            say = words(run, f"{FORWARD}|{name}:", quiet=0.4)
            act = sh(f"python decode.py in/{name}.bin | tee out/{name}.txt", text)
        chat.act(say, act)
    chat.say(f"The answer is in {file}.")
