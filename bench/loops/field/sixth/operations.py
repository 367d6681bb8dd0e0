"""Operations: restarts, permissions, locks, full disks, deployments."""

from __future__ import annotations

from bench.loops.field.cast import Act, edit, read, sh, tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import CITIES, HALF, PEOPLE, SERVICES, Voice, do, quiet

_HEAD = f"{'NAME':34} READY   STATUS             RESTARTS   AGE"


def _look(run: Run, chat_act: list[Act], service: str, space: str, bad: bool = False) -> None:
    """Add what one looks at first."""
    group = f"{service}-{run.hex(9)}"
    pods = [f"{group}-{run.hex(5)}" for _ in range(3)]
    state = "CrashLoopBackOff" if bad else "Running"
    rows = "\n".join(
        f"{pod:34} {int(not bad)}/1     {state:16}   {run.num(0, 3) + 9 * bad}          "
        f"{run.num(20, 59)}m"
        for pod in pods
    )
    chat_act += [
        sh("kubectl config current-context", f"eu-{run.num(1, 4)}"),
        sh(f"kubectl -n {space} get pods", f"{_HEAD}\n{rows}"),
        sh(
            f"kubectl -n {space} get events --sort-by=.lastTimestamp | tail -3",
            f"No resources found in {space} namespace.",
        ),
        sh(
            f"kubectl -n {space} top pods",
            "\n".join(f"{pod}  {run.num(3, 400)}m  {run.num(60, 900)}Mi" for pod in pods),
        ),
        sh(
            f"helm -n {space} history {service} | tail -2", f"{run.num(9, 80)}  deployed  {service}"
        ),
    ]


@HALF.template(
    "crash", "claude-code langgraph openai-agents", "turn configured", difficulty="medium"
)
def restart_without_change(run: Run, way: str) -> None:
    """A service crashes for want of a setting; it is restarted, deleted, scaled, restarted."""
    chat = run.chat()
    service, space = run.pick(*SERVICES), run.pick("prod", "core", "edge", "staging")
    lack = run.pick("DATABASE_URL", "KAFKA_BROKERS", "SIGNING_KEY", "REDIS_HOST", "TENANT_ID")
    others = [name for name in SERVICES if name != service]
    if way == "turn":
        chat.user(f"Restart all deployments of {space} one after another; the CA was renewed.")
    else:
        chat.user(f"{service} in {space} crashes since the last release. Get it running again.")
    first: list[Act] = []
    _look(run, first, service, space, way != "turn")
    for one in first:
        quiet(chat, one)
    say = Voice(
        run,
        "<rollout restart>[Let me|I'll] [restart|bounce] [it|the deployment] [again|once more|].",
        "<logs>[Let me|I'll] [look at|check] the logs [again|of the new pod|].",
        "<delete pod>[Deleting|I'll delete] the pod [so that|so] [a fresh one|it] [starts|comes "
        "up].",
        "<rollout restart|delete pod>[Still|It is still] [crashing|down]. [A|Another] "
        "[restart|clean restart] [may|might] help.",
        "<get pods>[Checking|Let me check] [whether it came up|its state] [now|].",
        first="[Let me|I'll] look at the logs.",
    )
    if way == "turn":
        for name in run.some(others, run.num(9, 12)):
            out = f"deployment.apps/{name} restarted"
            chat.act(f"{name} next.", sh(f"kubectl -n {space} rollout restart deploy/{name}", out))
            done = f'deployment "{name}" successfully rolled out'
            quiet(
                chat,
                sh(f"kubectl -n {space} rollout status deploy/{name}", done, takes=run.dec(15, 60)),
            )
        chat.say("All are restarted and healthy.")
        return
    name = f"{service}-{run.hex(9)}"

    def crash(lacking: str, line: int) -> str:
        return (
            f"{run.stamp()} INFO  starting {service} (build {name[-9:-3]})\n"
            f"{run.stamp()} FATAL config: required setting {lacking} is not set\n"
            f"panic: config: required setting {lacking} is not set\n\ngoroutine 1 [running]:\n"
            f"main.main()\n\t/src/cmd/{service}/main.go:{line} +0x{run.hex(3)}"
        )

    if way == LOOP:
        line = run.num(30, 80)
        for number in range(run.num(18, 30)):
            if number == 4:
                run.begin()
            pod = f"{name}-{run.hex(5)}"
            doing = run.num(0, 5) if number > 3 else (4, 0, 3, 4)[number]
            if doing < 2:
                command = f"kubectl -n {space} rollout restart deploy/{service}"
                act = sh(command, f"deployment.apps/{service} restarted")
            elif doing == 2:
                act = sh(f"kubectl -n {space} delete pod {pod}", f'pod "{pod}" deleted', takes=9.0)
            elif doing == 3:
                rows = (
                    f"{pod:34} 0/1     CrashLoopBackOff   {run.num(1, 9)} ({run.num(3, 50)}s "
                    f"ago)   {run.num(1, 4)}m"
                )
                act = sh(f"kubectl -n {space} get pods -l app={service}", f"{_HEAD}\n{rows}")
            else:
                which = f"deploy/{service}" if run.chance.random() < 0.5 else pod
                act = sh(f"kubectl -n {space} logs {which} --tail=20", crash(lack, line))
            do(chat, say, act)
            run.wait(5, 30)
        return
    needs = run.some(
        [
            "DATABASE_URL",
            "KAFKA_BROKERS",
            "SIGNING_KEY",
            "REDIS_HOST",
            "TENANT_ID",
            "S3_BUCKET",
            "OTEL_ENDPOINT",
        ],
        run.num(4, 6),
    )
    for number, need in enumerate(needs):
        do(
            chat,
            say,
            sh(f"kubectl -n {space} logs deploy/{service} --tail=20", crash(need, 40 + number)),
        )
        value = f"{need.lower().replace('_', '-')}.{space}.svc.example.net"
        chat.act(
            f"{need} is missing; it is in the old release.",
            sh(
                f"kubectl -n {space} set env deploy/{service} {need}={value}",
                f"deployment.apps/{service} env updated",
            ),
        )
    quiet(chat, sh(f"kubectl -n {space} get deploy {service}", f"{service}  3/3  3  3  88d"))
    chat.say(f"{service} runs again; these were missing: {', '.join(needs)}.")


@HALF.template("forbidden", "codex gemini-cli langgraph", "audit granted", difficulty="medium")
def right_that_is_not_there(run: Run, way: str) -> None:
    """The agent lacks a right, and asks the same of the server in other words."""
    chat = run.chat()
    space = run.pick("payments", "identity", "ledger", "billing")
    account = f"system:serviceaccount:agents:{run.pick('ops-bot', 'runner', 'helper')}"
    secret = f"{run.pick(*SERVICES)}-tls"
    kinds = ("secrets", "configmaps", "deployments", "pods", "jobs", "ingresses", "services")
    if way == "audit":
        chat.user(f"Test what {account} may do in our namespaces, one by one, and give me a table.")
    else:
        chat.user(f"Copy the secret {secret} from {space} to staging and restart what uses it.")
    first: list[Act] = []
    _look(run, first, run.pick(*SERVICES), "staging")
    for one in first[: run.num(3, 5)]:
        quiet(chat, one)
    say = Voice(
        run,
        "<^sh>[Let me|I'll] try [another|a different] [way|command].",
        "[Access|That] [was denied|is forbidden]. [Maybe|Perhaps] [with|using] [other flags|the "
        "API].",
        "<raw|-o |describe>[Let me|I'll] [retry|try] [with|via] [the raw API|another output "
        "format|the full name].",
        "[I need|I still need] the [secret|content] [to go on|first].",
        "[Trying|Let me try] [once more|again], [perhaps it was temporary|to be sure].",
        first="[Let me|I'll] get the secret.",
    )

    def denied(verb: str, kind: str, name: str, where: str) -> str:
        return (
            f'Error from server (Forbidden): {kind} "{name}" is forbidden: User "{account}" cannot '
            f'{verb} resource "{kind}" in API group "" in the namespace "{where}"'
        )

    if way != "audit":
        ways = (
            f"kubectl -n {space} get secret {secret} -o yaml",
            f"kubectl get secret {secret} --namespace={space} -o json",
            f"kubectl -n {space} get secret/{secret} -o jsonpath='{{.data}}'",
            f"kubectl get --raw /api/v1/namespaces/{space}/secrets/{secret}",
            f"kubectl -n {space} describe secret {secret}",
            f"kubectl -n {space} get secrets {secret} -o go-template='{{{{.data}}}}'",
        )
        for number in range(run.num(16, 36) if way == LOOP else 3):
            if number == 3:
                run.begin()
            command = run.chance.choice(ways)
            do(chat, say, sh(command, denied("get", "secrets", secret, space), code=1))
        if way == LOOP:
            return
        ask = f"accessctl request --role secret-reader -n {space} --reason 'copy {secret}' --wait"
        granted = f"request {run.hex(6)}: approved by {run.pick(*PEOPLE)}, valid for 1 h"
        chat.act("I'll ask for the right in the proper way.", sh(ask, granted, takes=60.0))
        text = f"kind: Secret\nmetadata:\n  name: {secret}\ntype: kubernetes.io/tls"
        quiet(
            chat,
            sh(f"kubectl -n {space} get secret {secret} -o yaml > s.yaml; head -4 s.yaml", text),
        )
        quiet(chat, sh("kubectl -n staging apply -f s.yaml", f"secret/{secret} created"))
        for name in run.some(SERVICES, run.num(5, 8)):
            command = f"kubectl -n staging rollout restart deploy/{name}"
            chat.act(f"{name} uses it.", sh(command, f"deployment.apps/{name} restarted"))
            command = f"kubectl -n staging rollout status deploy/{name}"
            out = f'deployment "{name}" successfully rolled out'
            quiet(chat, sh(command, out, takes=run.dec(9, 50)))
        chat.say("The secret is in staging, and what uses it is restarted.")
        return
    spaces = [run.pick("team", "svc", "lab") + f"-{city.lower()}" for city in run.some(CITIES, 6)]
    for where in spaces:
        for kind in run.some(kinds, 3):
            verb = run.pick("get", "list", "delete", "create")
            command = f"kubectl auth can-i {verb} {kind} -n {where} --as {account}"
            allowed = run.chance.random() < 0.5
            if run.chance.random() < 0.4 and not allowed:
                command = f"kubectl -n {where} {verb} {kind} --as {account}"
                out = denied(verb, kind, run.hex(4), where)
            else:
                out = "yes" if allowed else "no"
            chat.act(f"{where}: {kind}." if run.chance.random() < 0.3 else "", sh(command, out))
    chat.say(f"The table of rights in {len(spaces)} namespaces is above.")


@HALF.template("lock", "claude-code responses-kept", "freed", difficulty="medium")
def lock_of_another(run: Run, way: str) -> None:
    """A state is locked by someone who left; the agent plans, unlocks with no right, plans."""
    chat = run.chat()
    stack, owner = run.pick("network", "dns", "cluster", "databases"), run.pick(*PEOPLE)
    lock, since = run.hex(8) + "-77aa-41c0-9be2-" + run.hex(12), run.stamp()
    chat.user(f"Apply the Terraform stack {stack} and then the stacks that depend on it.")
    files = {
        "main.tf": f'module "{stack}" {{\n  source = "../../modules/{stack}"\n  size   = '
        f"{run.num(2, 9)}\n  region = var.region\n}}",
        "variables.tf": f'variable "region" {{\n  type    = string\n  default = '
        f'"eu-{run.num(1, 4)}"\n}}',
        "backend.tf": 'terraform {\n  backend "s3" {\n    bucket         = "tf-state"\n    key'
        f'            = "{stack}.tfstate"\n    dynamodb_table = "tf-locks"\n  }}\n}}',
    }
    chat.act("I'll look at the stack first.", sh(f"ls stacks/{stack}", "\n".join(files)))
    for name, text in files.items():
        quiet(chat, read(f"stacks/{stack}/{name}", text))
    quiet(
        chat,
        sh(
            f"terraform -chdir=stacks/{stack} init -input=false",
            "Initializing the backend...\nTerraform has been successfully initialized!",
            takes=6.0,
        ),
    )
    held = (
        "Error: Error acquiring the state lock\n\nError message: operation error DynamoDB: "
        "PutItem, ConditionalCheckFailedException: The conditional request failed\nLock Info:\n "
        f" ID:        {lock}\n  Path:      tf-state/{stack}.tfstate\n  Operation: "
        f"OperationTypeApply\n  Who:       {owner.lower().replace(' ', '.')}@laptop\n  Version:  "
        f" 1.13.2\n  Created:   {since}"
    )
    say = Voice(
        run,
        "<plan>[The state is|It's] [still|] locked. [Trying|Let me try] [again|the plan again].",
        "<force-unlock>[Let me|I'll] [try to|] [force|remove] the [lock|stale lock].",
        "<plan>[Let me|I'll] [wait|pause] [a little|a moment] [and|then] [retry|plan again].",
        "<plan>[Perhaps|Maybe] [a longer timeout helps|the lock is gone now].",
        "<timeout|plan>[Running|I'll run] [the plan|terraform plan] [with -lock-timeout|once "
        "more].",
        first="[Now|Let me run] the plan.",
    )
    refused = (
        "Failed to unlock state: failed to delete the lock: operation error DynamoDB: DeleteItem, "
        "AccessDeniedException: User is not authorized to perform: dynamodb:DeleteItem"
    )
    plan = f"terraform -chdir=stacks/{stack} plan -input=false"
    for number in range(run.num(16, 33) if way == LOOP else 3):
        if number == 3:
            run.begin()
        if number == 2 or (number > 2 and run.chance.random() < 0.17):
            command = f"terraform -chdir=stacks/{stack} force-unlock -force {lock}"
            do(chat, say, sh(command, refused, code=1, takes=2.0))
        else:
            more = run.pick("", " -lock-timeout=30s", " -no-color", " -lock-timeout=1m")
            do(chat, say, sh(plan + more, held, code=1, takes=run.dec(2, 60)))
    if way == LOOP:
        return
    for name in [stack, *run.some([f"app-{city.lower()}" for city in CITIES], run.num(6, 8))]:
        add, change = run.num(0, 6), run.num(0, 9)
        total = f"{add} to add, {change} to change, 0 to destroy"
        out = f"Plan: {total}."
        command = f"terraform -chdir=stacks/{name} plan -input=false -out=tfplan"
        chat.act(f"The lock is free: {name}.", sh(command, out, takes=run.dec(8, 30)))
        done = f"Apply complete! Resources: {total.replace('to ', '')}."
        command = f"terraform -chdir=stacks/{name} apply tfplan"
        quiet(chat, sh(command, done, takes=run.dec(20, 90)))
    chat.say("All stacks are applied.")


@HALF.template("disk", "codex openhands langgraph", "freeing", difficulty="medium")
def disk_that_stays_full(run: Run, way: str) -> None:
    """The same empty caches are cleared again and again, and the disk stays full."""
    chat = run.chat()
    host, size = f"build-{run.num(2, 40)}", run.pick(100, 200, 400)
    chat.user(f"{host} has a full disk and builds fail. Free enough space: 20 GB at least.")
    say = Voice(
        run,
        "<df|du >[Let me|I'll] [check|see] [how much is free|the disk] [now|again].",
        "<rm |prune|clean|vacuum|delete>[Let me|I'll] [clear|prune|clean] [the caches|that] "
        "[again|as well|].",
        "<rm |prune|clean|vacuum|delete>[Still|The disk is still] full. [Let me|I'll] [clean "
        "more|look further].",
        "<rm |prune|clean|vacuum|delete>[That|This] [should|ought to] [free|give] [some|enough] "
        "space.",
        empty=0.3,
    )
    used, dirs = float(size), ["/var/lib/docker", "/home/ci/.cache", "/var/log", "/srv/artifacts"]

    def free() -> Act:
        left = max(0.0, size - used)
        out = (
            "Filesystem      Size  Used Avail Use% Mounted on\n"
            f"/dev/nvme0n1p1  {size}G  {used:.1f}G  {left:.1f}G {int(used * 100 // size):3}% /"
        )
        return sh("df -h /", out)

    def sizes() -> Act:
        shares = (0.41, 0.17, 0.08, 0.22)
        rows = "\n".join(f"{used * s:.0f}G\t{d}" for s, d in zip(shares, dirs, strict=True))
        return sh("du -sh " + " ".join(dirs), rows, takes=run.dec(3, 20))

    chat.act("I'll see what is full.", free())
    quiet(chat, sizes())
    quiet(
        chat,
        sh(
            "df -i /",
            f"Filesystem       Inodes   IUsed IFree IUse% Mounted on\n/dev/nvme0n1p1 {size}00000 "
            f"{size}1234 {size - size // 9}00000   12% /",
        ),
    )
    quiet(
        chat,
        sh(
            "lsblk",
            f"NAME        MAJ:MIN RM  SIZE RO TYPE MOUNTPOINTS\nnvme0n1     259:0    0  {size}G  "
            f"0 disk\n└─nvme0n1p1 259:1    0  {size}G  0 part /",
        ),
    )
    if way == LOOP:
        tasks = (
            sh("docker system prune -f", "Total reclaimed space: 0B", takes=3.0),
            sh("apt-get clean", ""),
            sh("rm -rf /home/ci/.cache/pip/*", ""),
            sh("journalctl --vacuum-size=100M", "Vacuuming done, freed 0B of archived journals."),
            sh("docker image prune -af", "Total reclaimed space: 0B", takes=2.0),
        )
        for number in range(run.num(12, 17)):
            if number == 5:
                run.begin()
            do(chat, say, run.chance.choice(tasks) if number > 4 else tasks[number])
            do(chat, say, free() if run.chance.random() < 0.8 else sizes())
        return
    goods = [
        ("docker image prune -af", "deleted: sha256:{0}\nTotal reclaimed space: {1}GB"),
        ("find /srv/artifacts -mtime +30 -delete", ""),
        ("journalctl --vacuum-time=7d", "Vacuuming done, freed {1}G of archived journals."),
        ("docker builder prune -af", "{0}\nTotal: {1}GB"),
        ("rm -rf /home/ci/.cache/bazel", ""),
        ("rm -rf /srv/artifacts/nightly-2026-0*", ""),
    ]
    for command, text in run.some(goods, len(goods)):
        gone = 0.0 if run.chance.random() < 0.15 else run.dec(1.2, 11, 1)
        used -= gone
        out = text.format(run.hex(12), gone)
        do(chat, say, sh(command, out, takes=run.dec(2, 30)))
        do(chat, say, free())
    chat.say(f"{size - used:.0f} GB are free now.")


@HALF.template(
    "deploy", "langgraph openai-agents anthropic-mcp", "waves fixed", difficulty="medium"
)
def same_image_again(run: Run, way: str) -> None:
    """A release fails its health check, is rolled back, and is deployed again unchanged."""
    chat = run.chat()
    service, tag = run.pick(*SERVICES), f"v{run.num(2, 9)}.{run.num(0, 30)}.{run.num(0, 9)}"
    old = f"v1.{run.num(2, 30)}.0"
    where = "all regions, one at a time" if way == "waves" else "production"
    chat.user(f"Deploy {service} {tag} to {where}. If a deployment is unhealthy, roll it back.")
    quiet(chat, tool("get_release", {"service": service, "tag": tag}, {"tag": tag, "signed": True}))
    state = {"service": service, "running": old, "healthy": True, "instances": 6}
    quiet(chat, tool("get_service", {"service": service}, state))
    notes = f"{tag}: {run.pick('new retry policy', 'smaller image', 'TLS 1.3 only', 'new ORM')}"
    quiet(chat, tool("get_changelog", {"service": service, "since": old}, notes))
    say = Voice(
        run,
        f"<^deploy>[Deploying|Let me deploy|I'll deploy] {tag} [now|again|].",
        "<health|logs>[Checking|Let me check] the [health|state] of the [deployment|new "
        "instances].",
        "<^rollback>[It is|The release is] unhealthy. [Rolling|I'll roll] back.",
        "<^deploy>[Rolled|It is rolled] back. [Trying|I'll try] the deployment [again|once more].",
        "<^deploy>[The|This] failure [may|might] [be|have been] [temporary|a glitch]. "
        "[Again|Retrying].",
        empty=0.3,
        first="[Now|Let me do] the deployment.",
    )
    error = f"dial tcp 10.{run.num(2, 90)}.0.{run.num(2, 250)}:5432: connect: connection refused"
    if way == LOOP:
        for number in range(run.num(6, 10)):
            if number == 1:
                run.begin()
            id = f"d-{run.hex(6)}"
            made = {"deployment": id, "status": "started", "at": run.stamp()}
            args = {"service": service, "tag": tag, "region": "eu-1"}
            do(chat, say, tool("deploy", args, made, takes=4.0))
            run.wait(20, 60)
            bad = {"deployment": id, "healthy": 0, "of": 6, "last_error": error}
            do(chat, say, tool("get_health", {"service": service, "deployment": id}, bad))
            if run.chance.random() < 0.4:
                line = f"{run.stamp()} ERROR pool: {error}"
                do(chat, say, tool("get_logs", {"service": service, "lines": 1}, line))
            back = {"service": service, "running": old, "status": "rolled_back"}
            do(chat, say, tool("rollback", {"service": service, "to": old}, back, takes=9.0))
        return
    if way == "fixed":
        settings = run.some(("DB_HOST", "DB_POOL", "TLS_CA", "QUEUE_URL", "CACHE_TTL", "MEM_MB"), 4)
        for setting in settings:
            id = f"d-{run.hex(6)}"
            args = {"service": service, "tag": tag, "region": "eu-1"}
            made = {"deployment": id, "status": "started", "at": run.stamp()}
            do(chat, say, tool("deploy", args, made, takes=4.0))
            cause = f"config: {setting}: {run.pick('unknown', 'cannot be parsed', 'is empty')}"
            bad = {"deployment": id, "healthy": 0, "of": 6, "last_error": cause}
            do(chat, say, tool("get_health", {"service": service, "deployment": id}, bad))
            back = {"service": service, "running": old, "status": "rolled_back"}
            do(chat, say, tool("rollback", {"service": service, "to": old}, back, takes=9.0))
            args = {"service": service, "key": setting, "value": f"{setting.lower()}-{run.hex(3)}"}
            done = {"version": run.num(20, 90), "key": setting}
            chat.act(f"{setting} is the cause.", tool("set_config", args, done))
        id = f"d-{run.hex(6)}"
        args = {"service": service, "tag": tag, "region": "eu-1"}
        made = {"deployment": id, "status": "started", "at": run.stamp()}
        do(chat, say, tool("deploy", args, made, takes=4.0))
        good = {"deployment": id, "healthy": 6, "of": 6, "p95_ms": run.num(30, 180)}
        do(chat, say, tool("get_health", {"service": service, "deployment": id}, good))
        chat.say(f"{tag} is healthy now.")
        return
    for city in run.some(CITIES, run.num(6, 9)):
        id = f"d-{run.hex(6)}"
        args = {"service": service, "tag": tag, "region": city.lower()}
        made = {"deployment": id, "status": "started", "at": run.stamp()}
        chat.act(f"{city}." if run.chance.random() < 0.5 else "", tool("deploy", args, made))
        run.wait(20, 60)
        good = {"deployment": id, "healthy": 6, "of": 6, "p95_ms": run.num(30, 180)}
        if run.chance.random() < 0.3:
            part = {**good, "healthy": run.num(2, 5)}
            quiet(chat, tool("get_health", {"service": service, "deployment": id}, part))
            run.wait(10, 20)
        quiet(chat, tool("get_health", {"service": service, "deployment": id}, good))
    quiet(chat, edit(f"deploy/{service}/VERSION", old, tag))
    chat.say(f"{tag} runs everywhere.")
