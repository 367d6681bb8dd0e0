"""A machine that is in the way: packages, ports, disks, networks. "
"Whatever is tried, it stays so."""

from __future__ import annotations

from collections.abc import Callable

from bench.loops.field.cast import edit, read, sh, write
from bench.loops.field.fifth.common import (
    CITIES,
    HALF,
    HOSTS,
    Project,
    ask_to,
    build_log,
    earlier,
    idea,
    look,
    maybe,
    once_more,
    onward,
    traceback,
)
from bench.loops.field.run import LOOP, Run, cycle

PACKAGES = (
    "pyodbc psycopg2 python-ldap mysqlclient pygraphviz rtree gdal netCDF4 h5py xmlsec "
    "pycairo lxml dlib"
).split()
HEADERS = {"pyodbc": "sql.h", "psycopg2": "libpq-fe.h", "python-ldap": "lber.h"}


def _pip(run: Run, name: str) -> str:
    version, size = f"{len(name) % 5 + 1}.{len(name)}.2", 90 + 37 * len(name)
    header = HEADERS.get(name, f"{name.lower()}/config.h")
    return (
        f"Looking in indexes: https://pypi.internal/simple\nCollecting {name}\n  Using cached "
        f"{name}-{version}.tar.gz ({size} kB)\n"
        f"  Installing build dependencies: finished with status 'done' ({run.dec(2, 9)}s)\n"
        "  Getting requirements to build wheel: finished with status 'done'\n"
        "  Preparing metadata (pyproject.toml): finished with status 'done'\n"
        f"Building wheels for collected packages: {name}\n"
        f"  Building wheel for {name} (pyproject.toml): finished with status 'error'\n"
        f"  gcc -pthread -fPIC -I/usr/include/python3.12 -c src/{name}.c -o build/{run.hex(6)}.o\n"
        f"  src/{name}.c:14:10: fatal error: {header}: No such file or directory\n"
        "  compilation terminated.\n  error: command '/usr/bin/gcc' failed with exit code 1\n"
        f"ERROR: Failed building wheel for {name}"
    )


def _apt(run: Run, name: str) -> str:
    return (
        "Reading package lists... Done\nBuilding dependency tree... Done\n"
        f"Hit:{run.num(1, 4)} http://archive.internal/debian trixie InRelease\n"
        f"E: Unable to locate package {name}"
    )


def _conda(run: Run, name: str) -> str:
    seconds = run.dec(4, 30, 1)
    return (
        "Channels:\n - conda-internal\nPlatform: linux-64\n"
        f"Collecting package metadata (repodata.json): done [{seconds}s]\n"
        "Solving environment: failed\n\nPackagesNotFoundError: The following packages are not "
        f"available from current channels:\n\n  - {name}"
    )


@HALF.template("install", "openhands mini-swe-agent gemini-cli", "several third-time")
def no_such_package(run: Run, way: str) -> None:
    """Install one package with pip, conda and apt in turn; the headers are not there."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    name, *others = run.some(PACKAGES, 9)
    names = [name, *others] if way == "several" else [name]
    chat.user(ask_to(run, f"install {', '.join(names)} so that `{project.command()}` runs."))
    missing = f"ModuleNotFoundError: No module named '{name}'"
    chat.act("What is there?", read("requirements.txt", "\n".join([*names, "requests", "attrs"])))
    chat.act("I run the tests.", sh(project.command(), missing, 2, 2))
    header = name.lower().removeprefix("py").removeprefix("thon-")
    ways: list[tuple[str, Callable[[Run, str], str]]] = [
        (f"pip install {name}", _pip),
        (f"pip install --no-cache-dir {name}", _pip),
        (f"sudo apt-get install -y lib{header}-dev", lambda r, _: _apt(r, f"lib{header}-dev")),
        (f"conda install -y -c conda-internal {name}", _conda),
        (f"pip install --no-build-isolation {name}", _pip),
        (f"apt-get update && apt-get install -y python3-{header}", _apt),
        (f"uv pip install {name}", _pip),
        (f"pip install {name} --prefer-binary", _pip),
    ]
    if way == LOOP:
        chosen = run.some(ways, run.num(3, 6))
        for number, (cmd, printed) in zip(run.times(18, 26), cycle(chosen), strict=False):
            if number == len(chosen):
                run.begin()
            say = once_more(run, cmd.split()[0] + " for " + name)
            chat.act(maybe(run, say, 0.8), sh(cmd, printed(run, name), 1, run.dec(3, 25)))
            if run.chance.random() < 0.2:
                chat.act(
                    maybe(run, "Is it there now?"),
                    sh(f"python -c 'import {name}'", missing, 1, 0.3),
                )
        return
    for number, one in enumerate(names * (1 if way == "several" else 3)):
        if way == "third-time" and number < 2:
            chat.act(once_more(run, "pip"), sh(f"pip install {one}", _pip(run, one), 1, 14))
            package = f"lib{header}{number}-dev"
            chat.act(
                "The header is in a package of its own; which one?",
                sh(f"apt-cache search {header} | grep dev", f"{package} - development files"),
            )
            chat.act(
                "", sh(f"sudo apt-get install -y {package}", f"Setting up {package} ...", 0, 9)
            )
            continue
        size, version = run.num(200, 9000), f"{run.num(1, 5)}.{run.num(0, 30)}.{run.num(0, 9)}"
        if run.chance.random() < 0.3:
            chat.act(maybe(run, onward(run, one)), sh(f"pip install {one}", _pip(run, one), 1, 11))
            chat.act("With conda, then.", sh(f"conda install -y {one}", f"done\n{one}-{version}"))
        else:
            got = f"Downloading {one}-{version}.whl ({size} kB)"
            out = f"{got}\nSuccessfully installed {one}-{version}"
            chat.act(maybe(run, onward(run, one)), sh(f"pip install {one}", out, 0, run.dec(2, 9)))
        chat.act("", sh(f"python -c 'import {one}; print({one}.__version__)'", version))
    for number in range(2):
        bug = project.failure(number)
        chat.act("Tests:", sh(project.command(number), project.tested([bug], 9), 1, 4))
        chat.act("", edit(project.path(number), bug.got, bug.wanted))
    chat.act("", sh(project.command(), project.tested([]), 0, 8))
    chat.say("Everything is installed, and the tests run.")


@HALF.template(
    "port", "claude-code opencode responses-kept", "services restarts", difficulty="easy"
)
def port_is_taken(run: Run, way: str) -> None:
    """Start a server, see that its port is in use, kill something, start it again."""
    project = Project(run, "ts")
    chat = run.chat()
    earlier(run, chat, project)
    port = run.pick(3000, 5173, 8000, 8080, 4200)
    what = {
        LOOP: f"start {project.name} on port {port} and check that /health answers.",
        "services": f"start the nine services of {project.name} and check that each is healthy.",
        "restarts": f"find out which of the nine settings in bench.env makes {project.name} slow: "
        "change one at a time, restart the server, measure.",
    }[way]
    chat.user(ask_to(run, what))
    manifest = f'{{"name": "{project.name}", "scripts": {{"dev": "node server.mjs"}}}}'
    chat.act(look(run, "the scripts"), sh("cat package.json", manifest))
    chat.act("", sh("npm ci --silent && ls", "node_modules  package.json  server.mjs  src", 0, 12))

    def busy() -> str:
        return (
            f"> {project.name}@1.4.2 dev\n> node server.mjs\n\nnode:events:497\n"
            "      throw er; // Unhandled 'error' event\n      ^\n\n"
            f"Error: listen EADDRINUSE: address already in use :::{port}\n"
            "    at Server.setupListenHandle [as _listen2] (node:net:1908:16)\n"
            f"    at listenInCluster (node:net:1965:12)\n  errno: -98,\n  port: {port}\n}}\n"
            f"[{run.num(1, 9)}]+  Exit 1   PID {run.num(2000, 60000)}"
        )

    if way == LOOP:
        kills = (
            f"lsof -ti:{port} | xargs -r kill -9",
            f"fuser -k {port}/tcp",
            "pkill -f server.mjs",
        )
        for number in run.times(9, 14):
            if number == 1:
                run.begin()
            say = once_more(run, f"starting it on {port}")
            chat.act(maybe(run, say), sh("npm run dev & sleep 3", busy(), 1, 3.2))
            cmd = run.pick(*kills)
            out = f"{port}/tcp:  {run.num(2000, 60000)}" if "fuser" in cmd else ""
            chat.act(maybe(run, "I free the port."), sh(cmd, out, 0, 0.3))
            if run.chance.random() < 0.3:
                seen = (
                    f'LISTEN 0 511 *:{port} *:* users:(("node",pid={run.num(2000, 60000)},fd=19))'
                )
                chat.act(maybe(run, "Who has it?"), sh(f"ss -ltnp | grep {port}", seen))
        return
    for number, noun in enumerate(project.nouns):
        own = port + number if way == "services" else port
        pid = run.num(2000, 60000)
        if way == "services":
            start = f"PORT={own} node services/{noun}.mjs & sleep 2"
        else:
            chat.act(
                maybe(run, onward(run, f"the setting {noun.upper()}")),
                sh(f"sed -i 's/^{noun.upper()}=.*/{noun.upper()}=off/' bench.env", ""),
            )
            start = f"fuser -k {port}/tcp; npm run dev & sleep 3"
        out = f"{noun if way == 'services' else project.name} listens on :{own} (pid {pid})"
        chat.act(maybe(run, "Start.", 0.4), sh(start, out, 0, 2.4))
        measured = run.dec(20, 400, 1)
        health = f'{{"status":"ok","service":"{noun}","p95_ms":{measured}}}'
        path = "health" if way == "services" else "bench?n=500"
        chat.act("", sh(f"curl -s localhost:{own}/{path}", health, 0, 1))
    chat.say("All nine are up." if way == "services" else "The seventh setting is the slow one.")


@HALF.template("disk", "codex openhands", "frees pushes")
def disk_is_full(run: Run, way: str) -> None:
    """Build an image, for which the disk has no room; clean what is clean; build again."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    tag = f"registry.internal/{project.name}:{run.hex(7)}"
    what = {
        LOOP: f"build the image {tag} and push it.",
        "frees": f"make room on this builder until `docker build` of {project.name} works.",
        "pushes": f"build and push the nine images of {project.name}, one after the other.",
    }[way]
    chat.user(ask_to(run, what))
    chat.act(
        look(run, "the Dockerfile"), read("Dockerfile", "FROM python:3.12\nCOPY . .\nRUN make")
    )
    layer = run.hex(12)

    steps = ["COPY requirements.txt .", "RUN pip install -r requirements.txt", "COPY . ."]

    def full() -> str:
        return (
            f"{build_log(run, steps)}\n#6 [4/4] RUN make\n#6 {run.dec(3, 20)} writing wheel cache\n"
            f'#6 ERROR: process "/bin/sh -c make" did not complete: '
            f"write /var/lib/docker/{layer}/"
            "diff/usr/lib/libtorch.so: no space left on device\n------\nERROR: failed to solve"
        )

    def usage(percent: int) -> str:
        free = (100 - percent) * 98 / 100
        return (
            "Filesystem      Size  Used Avail Use% Mounted on\n"
            f"/dev/nvme0n1p2   98G   {98 - free:.0f}G  {free:.1f}G  {percent}% /"
        )

    if way == LOOP:
        cleaning = [
            ("docker system prune -af", "Total reclaimed space: 0B"),
            ("df -h /", usage(100)),
            ("docker builder prune -af", "Total:\t0B"),
            ("rm -rf /tmp/* ~/.cache/pip", ""),
        ]
        for number in run.times(8, 12):
            if number == 2:
                run.begin()
            say = once_more(run, "the build")
            chat.act(maybe(run, say), sh(f"docker build -t {tag} .", full(), 1, run.dec(20, 90)))
            for cmd, out in run.some(cleaning, run.num(1, 2)):
                say = run.pick("I clean up first.", "There must be something to free.", "Space?")
                chat.act(maybe(run, say, 0.5), sh(cmd, out, 0, run.dec(0.5, 4)))
        return
    if way == "frees":
        percent = 100
        chat.act("Try it.", sh(f"docker build -t {tag} .", full(), 1, 40))
        for noun in project.nouns:
            size = run.dec(0.4, 3.0, 1)
            chat.act(
                maybe(run, run.pick("What is large?", "The next candidate:", "And here?")),
                sh(f"du -sh /srv/builds/{noun}", f"{size}G\t/srv/builds/{noun}", 0, 3),
            )
            percent -= int(size) + 1
            cmd = f"rm -rf /srv/builds/{noun}/old && df -h /"
            chat.act(maybe(run, f"Old builds of {noun} can go."), sh(cmd, usage(percent), 0, 2))
        log = build_log(run, steps)
        done = f"{log}\n#8 exporting layers\n#8 writing image sha256:{run.hex(64)} done"
        chat.act("And now?", sh(f"docker build -t {tag} .", done, 0, 90))
        chat.say(f"The disk is at {percent}% and the image builds.")
        return
    for noun in project.nouns:
        one = f"registry.internal/{noun}:{run.hex(7)}"
        log = build_log(run, [*steps, f"RUN make {noun}"])
        done = f"{log}\n#8 exporting layers\n#8 writing image sha256:{run.hex(64)} done"
        cmd = f"docker build -t {one} services/{noun}"
        chat.act(maybe(run, onward(run, noun)), sh(cmd, done, 0, run.dec(20, 90)))
        pushed = f"{run.hex(12)}: Pushed\ndigest: sha256:{run.hex(64)} size: {run.num(1500, 2900)}"
        chat.act("", sh(f"docker push {one}", pushed, 0, run.dec(5, 20)))
    chat.say("Nine images are built and pushed.")


@HALF.template("network", "qwen-code swe-agent", "mirror fetches", difficulty="easy")
def no_way_out(run: Run, way: str) -> None:
    """Fetch something through a proxy that refuses, by other tools and options."""
    project = Project(run)
    chat = run.chat()
    earlier(run, chat, project)
    site = run.pick("files.pythonhosted.org", "registry.npmjs.org", "github.com", "huggingface.co")
    file = f"{project.name}-{run.num(1, 9)}.{run.num(0, 9)}.tar.gz"
    proxy = f"10.{run.num(0, 90)}.0.{run.num(2, 250)}:3128"
    what = {
        LOOP: f"download {file} from {site} and unpack it to vendor/.",
        "mirror": f"download {file} and unpack it to vendor/; some of our mirrors have it.",
        "fetches": f"download the archives listed in vendor.txt from {site}.",
    }[way]
    chat.user(ask_to(run, what))
    listed = "\n".join(f"{noun}-{run.num(1, 9)}.0.tar.gz" for noun in project.nouns)
    chat.act(
        look(run, "vendor/"),
        sh(
            "ls vendor; cat vendor.txt; env | grep -i proxy",
            f"{listed}\nhttps_proxy=http://{proxy}",
        ),
    )
    url = f"https://{site}/{project.name}/{file}"

    def refused(tool: str, where: str) -> str:
        cached = f"ERR_ACCESS_DENIED 0\n< X-Cache: MISS from proxy-{run.num(1, 4)}"
        if tool == "curl":
            return (
                f"* Uses proxy env variable https_proxy == "
                f"'http://{proxy}'\n*   Trying {proxy}...\n"
                f"* Established connection to {proxy} from 10.1.0.{run.num(2, 250)} port "
                f"{run.num(30000, 60000)}\n* CONNECT: HTTP/1.1\n> CONNECT {where}:443 HTTP/1.1\n"
                f"> Host: {where}:443\n> User-Agent: curl/8.16.0\n> "
                f"Proxy-Connection: Keep-Alive\n>\n"
                f"< HTTP/1.1 403 Forbidden\n< Server: squid/6.13\n< Date: {run.stamp()}\n"
                f"< Content-Type: text/html;charset=utf-8\n< X-Squid-Error: {cached}\n"
                f"< Via: 1.1 proxy ({run.hex(10)})\n<\n* CONNECT tunnel failed, response 403\n"
                "* closing connection #0\ncurl: (56) CONNECT tunnel failed, response 403"
            )
        if tool == "wget":
            return (
                f"--{run.stamp('%Y-%m-%d %H:%M:%S')}--  https://{where}/{file}\n"
                f"Connecting to {proxy}... connected.\nProxy tunneling failed: Forbidden\n"
                f"Unable to establish SSL connection after {run.dec(0.1, 2)}s."
            )
        end = "urllib3.exceptions.ProxyError: ('Unable to connect to proxy', '403 Forbidden')"
        return traceback(project, end, 5)

    if way == LOOP:
        tries = (
            ("curl", f"curl -vfL -o vendor/{file} {url}"),
            ("wget", f"wget -O vendor/{file} {url}"),
            ("curl", f"curl -vfLk --retry 3 -o vendor/{file} {url}"),
            ("python", f"python3 -c \"import requests; requests.get('{url}')\""),
            ("curl", f"https_proxy=http://{proxy} curl -vfL -O {url}"),
            ("wget", f"wget --no-check-certificate -c {url} -P vendor"),
        )
        for number in run.times(20, 26):
            if number == 4:
                run.begin()
            tool, cmd = tries[number % 4] if number < 4 else run.pick(*tries)
            say = run.mix(
                [once_more(run, tool), idea(run, "the certificate"), idea(run, "a header")]
            )
            chat.act(maybe(run, say, 0.8), sh(cmd, refused(tool, site), 56, run.dec(0.4, 4)))
        return
    rows = listed.split("\n") if way == "fetches" else [file]
    if way == "mirror":
        for host, city in zip(run.some(HOSTS, 4), run.some(CITIES, 4), strict=True):
            mirror = f"{host}.{city.lower()}.mirrors.internal"
            chat.act(
                maybe(run, once_more(run, f"the mirror in {city}")),
                sh(f"curl -vfL -O https://{mirror}/{file}", refused("curl", mirror), 56, 2),
            )
    for row in rows:
        size = run.num(200, 90000)
        out = (
            f"HTTP/1.1 200 Connection established\n100 {size}k  100 {size}k  0:00:{run.num(10, 59)}"
        )
        chat.act(maybe(run, onward(run, row)), sh(f"curl -fL -O https://{site}/{row}", out, 0, 9))
    if way == "mirror":
        for noun in project.nouns[:5]:
            chat.act("", write(f"vendor/{noun}.lock", f"{noun} {run.hex(32)}"))
            chat.act(
                maybe(run, f"The checksum of {noun}:"),
                sh(f"sha256sum vendor/{noun}/*", f"{run.hex(64)}  vendor/{noun}/setup.py"),
            )
    chat.say(f"Done; {len(rows)} archives are in vendor/.")
