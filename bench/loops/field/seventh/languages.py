"""Issues of repositories in Java, TypeScript, Go, Rust and C++."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh
from bench.loops.field.run import LOOP, Run, cycle
from bench.loops.field.seventh.common import (
    FORWARD,
    NEXT,
    RETEST,
    STILL,
    after,
    ask,
    camel,
    cargo_out,
    change,
    explore,
    go_out,
    half,
    jest_out,
    mvn_out,
    pascal,
    repo,
    snake,
    source,
    talk,
    words,
)


@half.template("no-network", "claude-code opencode responses-kept", "modules mirror")
def offline_maven(run: Run, way: str) -> None:
    """A sandbox has no network; Maven is run with other flags, and fails to resolve each time."""
    at = repo(run, "java")
    chat = talk(run, way, f"The project is in {at.root}.")
    extra = "\n\nBuild and test each module on its own, and mend what fails." if way != LOOP else ""
    chat.user(ask(run, at) + extra)
    explore(run, chat, at, 3, 8)
    chat.act("The fix.", edit(at.files[0], *change(run, "java", at.func)))
    plugin = run.pick(
        "maven-surefire-plugin:3.2.5", "maven-resources-plugin:3.3.1", "jacoco:0.8.11"
    )
    host = "repo.maven.example.org"
    error = (
        f"Plugin org.apache.maven.plugins:{plugin} or one of its dependencies could not be "
        f"resolved: Failed to read artifact descriptor: Could not transfer artifact from/to "
        f"central (https://{host}/maven2): {host}: Temporary failure in name resolution"
    )
    flags = cycle(
        run.some(
            (
                "mvn -q test",
                "mvn test -U",
                f"mvn -o test -Dtest={at.cls}Test",
                "mvn clean test -DskipITs",
                "./mvnw test",
                f"mvn dependency:resolve && mvn test -Dtest={at.cls}Test",
                "mvn -B -ntp verify",
                "rm -rf ~/.m2/repository/org/apache && mvn test",
            ),
            6,
        )
    )
    mended = run.num(3, 5)
    for number in run.times(23, 33):
        if number == 7 and way == LOOP:
            run.begin()
        if way == LOOP or (way == "mirror" and number < mended):
            say = words(
                run,
                after(
                    number,
                    "Maven cannot reach the repository.|Name resolution failed.|Perhaps a "
                    "flag helps.|"
                    "Hmm.|That is a network problem.",
                ),
                "Let me try another goal.|Other flags, perhaps.|Try it this way.|Another "
                "variant.|Retry.",
            )
            chat.act(say, sh(next(flags), mvn_out(run, [error]), 1, 8))
            continue
        if way == "mirror" and number == mended:
            chat.act(
                "There is a mirror in settings-ci.xml.",
                sh(
                    "cp ci/settings-ci.xml ~/.m2/settings.xml && cat ~/.m2/settings.xml", "<mirror>"
                ),
            )
        module = f"{at.name}-{snake(run).replace('_', '-')}"
        tests = f"Tests run: {run.num(4, 240)}, Failures: 0, Errors: 0, Skipped: {run.num(0, 4)}"
        bad = run.chance.random() < 0.2
        lines = [f"{module}: {'COMPILATION ERROR : cannot find symbol' if bad else tests}"]
        chat.act(
            words(run, f"Now {module}.|{FORWARD}", quiet=0.3),
            sh(f"mvn -q -pl {module} test", mvn_out(run, lines, not bad), int(bad), 20),
        )
        if bad:
            chat.act(
                words(run, "An import is missing.|A small thing."),
                edit(f"{module}/pom.xml", f"<!-- {run.hex(4)} -->", f"<scope>{module}</scope>"),
            )
    chat.say("That is all I can do here." if way == LOOP else "All modules are green.")


@half.template("seesaw", "cline codex gemini-cli", "strict-mode upgrade", "whole", "hard")
def type_seesaw(run: Run, way: str) -> None:
    """Two type errors in turn: mending one brings back the other."""
    at = repo(run, "typescript")
    chat = talk(run, way)
    chat.user(
        f"Turn on strict in {at.root}/tsconfig.json and mend what tsc reports, file by file."
        if way == "strict-mode"
        else ask(run, at)
    )
    explore(run, chat, at, 4, 9)
    path, noun = at.files[0], pascal(snake(run))
    low = run.num(20, 200)
    pair = [
        f"{path}({low},14): error TS2322: Type '{noun} | undefined' is not assignable to type "
        f"'{noun}'.",
        f"{path}({low + run.num(3, 40)},9): error TS2345: Argument of type '{noun}' is not "
        f"assignable to parameter of type 'never'.",
    ]
    shapes = [f"): {noun} {{", f"): {noun} | undefined {{"]
    left = run.num(14, 22)
    for number in run.times(10, 16):
        if way == LOOP:
            if number == 2:
                run.begin()
            old, new = shapes[number % 2], shapes[(number + 1) % 2]
            chat.act(
                words(run, f"{NEXT}|The return type is wrong.|Widen the type.|Narrow it instead."),
                edit(path, old, run.pick(new, new.replace(" {", "  {"))),
            )
            errors = [pair[number % 2]]
        else:
            left = max(left - run.num(1, 3), 0)
            target = run.pick(*at.files)
            old, new = change(run, "typescript", camel(snake(run)))
            chat.act(words(run, f"{FORWARD}|Now {target}."), edit(target, old, new))
            errors = [
                f"{run.pick(*at.files)}({run.num(3, 300)},{run.num(2, 30)}): error "
                f"TS{run.pick(2322, 2345, 2532, 7006, 18048)}: '{camel(snake(run))}' is possibly "
                "'undefined'."
                for _ in range(left)
            ]
            if way == "upgrade" and number % 4 == 3:
                chat.act("And the tests?", sh("npx jest", jest_out(run, at.test, run.num(20, 60))))
        end = f"\n\nFound {len(errors)} error{'s' * (len(errors) != 1)}." if errors else ""
        chat.act(
            words(run, "Type-check again.|tsc:|Compile.", quiet=0.3),
            sh("npx tsc --noEmit -p .", "\n".join(errors) + end, 2 if errors else 0, 6),
        )
        if not errors:
            break
    chat.act("Last, the linter.", sh("npx eslint . --max-warnings 0", "", 0, 5))
    chat.say("tsc is content.")


@half.template(
    "seesaw", "mini-swe-agent claude-code opencode", "errors-fall features", "whole", "hard"
)
def borrow_circle(run: Run, way: str) -> None:
    """A borrow error is moved round a circle of three designs, each of which was rejected."""
    at = repo(run, "rust")
    chat = talk(run, way)
    chat.user(ask(run, at))
    explore(run, chat, at, 4, 8)
    path = at.files[0]
    line = run.num(40, 300)
    what = snake(run).split("_")[1]
    faults = [
        f"error[E0502]: cannot borrow `self.{what}` as mutable because it is also borrowed as "
        f"immutable\n   --> {path}:{line}:9",
        f"error[E0507]: cannot move out of `self.{what}` which is behind a mutable reference\n"
        f"   --> {path}:{line + 2}:21",
        f"error[E0597]: `{what}` does not live long enough\n   --> {path}:{line + 1}:17",
    ]
    designs = [
        f"let {what} = self.{what}.as_ref();",
        f"let {what} = std::mem::take(&mut self.{what});",
        f"let {what} = {{ let tmp = self.{what}.clone(); &*tmp }};",
    ]
    ideas = (
        "Borrow it only for the loop.|Take it out first.|A clone should satisfy the checker.|"
        "Let me restructure the borrow.|Use a reference again.|The lifetime has to be shorter."
    )
    left = run.num(12, 18)
    codes = ("E0308", "E0382", "E0432", "E0599", "E0277", "E0061")
    for number in run.times(12, 17):
        if number == 3 and way == LOOP:
            run.begin()
        if way == LOOP:
            old, new = designs[(number + 2) % 3], designs[number % 3]
            errors = [faults[number % 3]]
        else:
            old, new = change(run, "rust", snake(run))
            left = max(left - run.num(1, 3), 0)
            if way == "features":
                left = number % 3
            errors = [
                f"error[{run.pick(*codes)}]: mismatch in `{snake(run)}`\n   --> "
                f"{run.pick(*at.files)}:{run.num(4, 400)}:{run.num(5, 40)}"
                for _ in range(left)
            ]
        target = path if way == LOOP else run.pick(*at.files)
        chat.act(
            words(run, ideas if way == LOOP else f"{FORWARD}|Next error."), edit(target, old, new)
        )
        command = "cargo test" if way != "features" else f"cargo test -F {snake(run)}_{number}"
        out = cargo_out(run, at.name, errors, run.num(20, 90))
        chat.act(words(run, RETEST, quiet=0.4), sh(command, out, 101 if errors else 0, 12))
    chat.say(f"{at.func} compiles." if way != LOOP else "I have restructured the borrow.")


@half.template("wrong-belief", "claude-code qwen-code swe-agent", "packages deflake")
def test_cache(run: Run, way: str) -> None:
    """A Go test fails for a true reason; the model blames the cache, and clears it each time."""
    at = repo(run, "go")
    chat = talk(run, way)
    every = "\n\nAll packages need the new Clock; change them one at a time, and test each."
    flake = "\n\nIt fails once in a while in CI. Run with other seeds till you have a failing one."
    chat.user(ask(run, at) + {"packages": every, "deflake": flake}.get(way, ""))
    explore(run, chat, at, 4, 8)
    package = f"example.com/{at.name}/{at.files[0].rsplit('/', 1)[0]}"
    test = f"Test{at.func}"
    error = f"{at.test.rsplit('/', 1)[-1]}:{run.num(30, 300)}: got {run.num(1, 9)}, want 0"
    chat.act("The fix.", edit(at.files[0], *change(run, "go", at.func)))
    total = run.num(18, 30)
    for number in range(total):
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            say = words(
                run,
                "This must be a stale build.|The old binary is still used.|That is the test cache.|"
                "My change is right, so the cache has to be at fault.|Go caches test results.",
                "Clean and run again.|Clear it properly this time.|Let me bust the cache.|Once "
                "more.",
            )
            clean = run.pick(
                "go clean -testcache && ",
                "go clean -cache -testcache && ",
                "GOFLAGS=-count=1 ",
                "rm -rf ~/.cache/go-build && ",
                "GOCACHE=$(mktemp -d) ",
            )
            command = f"{clean}go test ./{package.split('/', 2)[2]}/... -run {test}"
            chat.act(say, sh(command, go_out(run, package, [(test, error)]), 1, 9))
        elif way == "packages":
            where = f"internal/{snake(run)}"
            if number % 2 == 0:
                old, new = change(run, "go", pascal(snake(run)))
                chat.act(words(run, f"Now {where}.|{FORWARD}"), edit(f"{where}/clock.go", old, new))
            else:
                out = go_out(run, f"example.com/{at.name}/{where}")
                chat.act(words(run, RETEST, quiet=0.5), sh(f"go test ./{where}/...", out, 0, 3))
        else:
            seed = run.num(10_000, 99_999)
            bad = [(test, f"{error[:-1]}{number}")] if number == total - 1 else []
            out = go_out(run, package, bad) + f"\n-test.shuffle {seed}"
            say = words(run, "Passes.|Another seed.|Not that one.|", quiet=0.4)
            chat.act(say, sh(f"go test -shuffle={seed} -count=20 ./...", out, len(bad), 14))
    chat.say("The cache is a problem of the environment." if way == LOOP else "See the summary.")


@half.template("same-failure", "openhands gemini-cli mini-swe-agent", "symbols", "trimmed")
def undefined_reference(run: Run, way: str) -> None:
    """The linker misses a symbol; flags and their order change in turns, the error does not."""
    at = repo(run, "cpp")
    chat = talk(run, way, f"Build folder: {at.root}/build")
    chat.user(
        f"Our port to the new toolchain in {at.root} does not link; there are dozens of missing "
        "symbols. Please get it to build."
    )
    explore(run, chat, at, 4, 8)
    symbol = f"{at.cls}::{at.func}(std::string const&)"
    error = (
        f"/usr/bin/ld: CMakeFiles/{at.name}.dir/{at.files[0]}.o: in function `main':\n"
        f"{at.files[0]}:(.text+0x{run.hex(3)}): undefined reference to `{{}}'\n"
        "collect2: error: ld returned 1 exit status"
    )
    libs = (f"{at.name}_core", f"{at.name}_util", "pthread")
    orders = [" ".join(run.some(libs, 3)) for _ in range(4)] + [f"-Wl,--start-group {libs[0]}"]
    for number in run.times(10, 16):
        if number == 4 and way == LOOP:
            run.begin()
        if way == LOOP:
            old, new = run.pick(*orders), run.pick(*orders)
            found = symbol
            say = words(run, f"{STILL}|", f"{NEXT}|The order of the libraries matters.|Link twice.")
        else:
            found = f"{pascal(snake(run))}::{snake(run)}(int)"
            old, new = f"# add {number}", f"{found.split(':')[0].lower()}.cpp"
            say = words(run, f"{FORWARD}|Another symbol.|This one was in a file that is not built.")
        chat.act(
            say,
            edit(
                f"{at.root}/CMakeLists.txt",
                f"target_link_libraries({at.name} {old})",
                f"target_link_libraries({at.name} {new})",
            ),
        )
        steps = run.num(40, 90)
        out = f"[{steps}%] Linking CXX executable {at.name}\n{error.format(found)}"
        chat.act(
            words(run, "Build.|make:|Try to link.", quiet=0.4),
            sh(f"cmake --build build -j{run.pick(2, 4)}", out, 2, 15),
        )
    if way != LOOP:
        chat.act("And now?", sh("cmake --build build", f"[100%] Built target {at.name}", 0, 40))
    chat.say("That was the last one." if way != LOOP else "The flags are right now.")


@half.template("dead-environment", "openhands codex cline", "full-then-free slow", "whole", "easy")
def broken_sandbox(run: Run, way: str) -> None:
    """Whatever is run, the sandbox answers with one error."""
    at = repo(run, "typescript")
    chat = talk(run, way, calm=way == LOOP)
    chat.user(ask(run, at))
    explore(run, chat, at, 5, 10)
    error = run.pick(
        "bash: fork: retry: Resource temporarily unavailable\nbash: fork: Resource temporarily "
        "unavailable",
        "OSError: [Errno 28] No space left on device",
        f"Error response from daemon: container {run.hex(12)} is not running",
        "bash: error while loading shared libraries: libtinfo.so.6: cannot open shared object "
        "file: Input/output error",
    )
    commands = (
        "npm test",
        "ls",
        "pwd",
        f"cat {at.files[0]}",
        "df -h",
        "git status",
        "echo hello",
        "ps aux | head",
        f"cd {at.root} && ls -la",
        "node --version",
        "which bash",
        "sleep 5 && echo ok",
        f"ls {at.root}/{at.files[1].rsplit('/', 1)[0]}",
    )
    freed = run.num(4, 6)
    for number in run.times(18, 28):
        if number == 3 and way == LOOP:
            run.begin()
        if way == LOOP or (way == "full-then-free" and number < freed):
            say = words(
                run,
                after(
                    number,
                    "Odd.|The shell seems to have a problem.|Let me try something simpler.|Retry.|"
                    "Does anything work at all?|It may have recovered.|Let me check the "
                    "environment.",
                ),
            )
            chat.act(say, sh(run.pick(*commands), error, run.pick(1, 1, 254), 1.5))
            continue
        if way == "full-then-free" and number == freed:
            chat.user(
                run.pick(
                    "I have restarted the sandbox, please go on.",
                    "Sorry, that was our side. It should work again.",
                    "The disk was full; there is room again. Continue.",
                )
            )
        name = f"{snake(run)}_{number}"
        path = f"{at.root}/{at.files[0].rsplit('/', 1)[0]}/{name}"
        if number % 3 == 0:
            act = read(path, source(run, at))
        elif number % 3 == 1:
            act = edit(path, *change(run, at.lang, name))
        else:
            out = jest_out(run, at.test, run.num(5, 60))
            slow = way == "slow" and run.chance.random() < 0.4
            out = "Command timed out after 120 s. Partial output:\n" + out if slow else out
            act = sh(f"npm test -- {name}", out, 124 if slow else 0, 60 if slow else 7)
        chat.act(words(run, f"{FORWARD}|Slow today." if number < 9 else FORWARD), act)
    chat.say("The environment is broken." if way == LOOP else "Finished.")
