"""The Helm chart agrees with itself, with the gateway and with the page about it."""

import copy
import re
import tomllib

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft202012Validator
from tests.deploy.files import CHART, ROOT, configured, environment, helm, manifests

from looptrap import __version__
from looptrap.admin.auth import UNAUTHENTICATED_PATHS, token_access
from looptrap.admin.server import AdminServer
from looptrap.gateway.app import App
from looptrap.gateway.auth import check_exposure, token_from_env
from looptrap.store.redis.address import parse_store_url

SECRET = "0123456789abcdef" * 4
OTHER = SECRET[::-1]
RELEASE = "guard"
"""What the chart is installed as: names are made from it."""
CLUSTER = f"{RELEASE}-valkey"
ALL = manifests(release=RELEASE)
EXTERNAL = manifests(
    "store.install=false",
    "store.urlSecret=store",
    "history.urlSecret=history",
    "serviceMonitor.enabled=true",
    "serviceMonitor.labels.release=prometheus",
    "networkPolicy.clients[0].podSelector.matchLabels.team=agents",
    release=RELEASE,
)
"""Store and history are elsewhere, Prometheus scrapes, and only some may call."""
WORKLOADS = {
    name: one for (kind, name), one in ALL.items() if kind in ("Deployment", "StatefulSet", "Job")
}
GATEWAY = ALL["Deployment", RELEASE]["spec"]["template"]["spec"]
VALKEY = ALL["StatefulSet", CLUSTER]["spec"]["template"]["spec"]
GIB = {"Mi": 1 << 20, "Gi": 1 << 30, "mb": 1 << 20}


def containers():
    return [
        pytest.param(one["spec"]["template"]["spec"], container, id=f"{name}/{container['name']}")
        for name, one in WORKLOADS.items()
        for container in one["spec"]["template"]["spec"]["containers"]
    ]


def labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def picked(selector):
    """Return the workloads whose pods a selector binds."""
    return [name for name, one in WORKLOADS.items() if selector.items() <= labels(one).items()]


def ports(pod):
    return {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}


def size(text):
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi|mb)", text).groups()
    return int(number) * GIB[unit]


@pytest.fixture(scope="module")
def gateway_env():
    return environment(GATEWAY["containers"][0], SECRET)


@pytest.fixture(scope="module")
def config(gateway_env, tmp_path_factory):
    """Return the configuration in effect inside a gateway's pod."""
    container = GATEWAY["containers"][0]
    mount = next(one for one in container["volumeMounts"] if one["name"] == "config")
    files = {}
    for name, text in ALL["ConfigMap", RELEASE]["data"].items():
        path = tmp_path_factory.mktemp("config") / name
        path.write_text(text, "utf-8")
        files[f"{mount['mountPath']}/{name}"] = path
    return configured(container["args"], files, gateway_env)


def test_there_is_what_a_deployment_needs():
    kinds = {kind for kind, _ in ALL}
    assert kinds == {
        "ConfigMap", "Deployment", "HorizontalPodAutoscaler", "Job", "NetworkPolicy",
        "PodDisruptionBudget", "Service", "StatefulSet",
    }  # fmt: skip


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(one, id=f"{place}: {'/'.join(name)}")
        for place, some in (("all installed", ALL), ("external", EXTERNAL))
        for name, one in some.items()
        if name[0] != "ServiceMonitor"  # no part of Kubernetes: it has a test of its own
    ],
)
def test_kubernetes_knows_every_field(manifest, version):
    kubernetes_validate.validate(manifest, version, strict=True)


def service_monitor_schema():
    """Return the schema of a ServiceMonitor, in which no field is allowed that it does not name."""
    from cloudcoil.models.prometheus_operator.v1 import ServiceMonitor

    def strict(schema):
        match schema:
            case dict():
                more = {"additionalProperties": False} if "properties" in schema else {}
                return {name: strict(one) for name, one in schema.items()} | more
            case list():
                return [strict(one) for one in schema]
        return schema

    return Draft202012Validator(strict(ServiceMonitor.model_json_schema()))


@pytest.mark.slow
def test_the_prometheus_operator_knows_every_field():
    monitor = EXTERNAL["ServiceMonitor", RELEASE]
    schema = service_monitor_schema()
    assert [*schema.iter_errors(monitor)] == []
    monitor = copy.deepcopy(monitor)
    monitor["spec"]["endpoints"][0]["prot"] = "admin"
    assert "'prot' was unexpected" in str([*schema.iter_errors(monitor)])


def test_prometheus_reads_every_pod_with_the_token_that_changes_nothing(config):
    monitor = EXTERNAL["ServiceMonitor", RELEASE]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    service = EXTERNAL["Service", f"{RELEASE}-metrics"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = {name: one for (kind, name), one in EXTERNAL.items() if kind == "Service"}
    found = [name for name, one in services.items() if wanted <= one["metadata"]["labels"].items()]
    assert found == [f"{RELEASE}-metrics"]
    assert service["spec"]["clusterIP"] == "None", "each pod is asked, not one of them"
    assert picked(service["spec"]["selector"]) == [RELEASE]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert [endpoint["port"]] == [port["name"] for port in service["spec"]["ports"]]
    assert endpoint["authorization"]["credentials"] == {"name": "looptrap", "key": "read-token"}


def test_the_chart_has_no_mistakes():
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_the_chart_is_of_this_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        pytest.param("stop.dely=3", "Additional property dely is not allowed", id="misspelt"),
        pytest.param("store.install=false", "store.urlSecret is needed", id="no store"),
        pytest.param("valkey.shards=2", "Must be greater than or equal to 3", id="two shards"),
        pytest.param("onStoreError=deny", "onStoreError must be one of", id="no such choice"),
    ],
)
def test_a_mistake_in_the_values_is_named(setting, message):
    done = helm("template", RELEASE, str(CHART), "--set", setting)
    assert done.returncode != 0
    assert message in done.stderr


def test_store_and_history_may_be_elsewhere():
    assert not [name for _, name in EXTERNAL if "valkey" in name]
    (container,) = EXTERNAL["Deployment", RELEASE]["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"]}
    assert env["LOOPTRAP_STORE"] == {"name": "store", "key": "url"}
    assert env["LOOPTRAP_HISTORY"] == {"name": "history", "key": "url"}
    assert "VALKEY_PASSWORD" not in env


def test_only_a_history_in_the_pod_is_as_small_as_its_volume():
    def text(some):
        return some["ConfigMap", RELEASE]["data"]["looptrap.toml"]

    assert tomllib.loads(text(ALL))["incidents"]["max_size"] == "200MB"
    assert "incidents" not in tomllib.loads(text(EXTERNAL))


def test_settings_of_the_values_are_a_part_of_the_file():
    more = manifests('settings=[[budgets]]\nby = ["session"]\nlimit_usd = 5')
    text = more["ConfigMap", "looptrap"]["data"]["looptrap.toml"]
    assert tomllib.loads(text)["budgets"] == [{"by": ["session"], "limit_usd": 5}]
    checksum = "checksum/settings"
    assert checksum_of(more, checksum) != checksum_of(manifests(), checksum), "pods are replaced"


def checksum_of(some, name):
    template = some["Deployment", "looptrap"]["spec"]["template"]
    return template["metadata"]["annotations"][name]


@pytest.mark.parametrize(("some", "clients"), [(ALL, None), (EXTERNAL, {"team": "agents"})])
def test_who_may_reach_a_gateway(some, clients):
    policy = some["NetworkPolicy", RELEASE]["spec"]
    assert picked(policy["podSelector"]["matchLabels"]) == [RELEASE]
    calls, scrapes = policy["ingress"]
    assert calls["ports"] == [{"port": "http"}]
    assert calls.get("from") == (clients and [{"podSelector": {"matchLabels": clients}}])
    assert scrapes["ports"] == [{"port": "admin"}]
    assert scrapes["from"], "the admin port is not for everybody"


def test_a_gateway_reaches_names_its_store_and_providers():
    rules = ALL["NetworkPolicy", RELEASE]["spec"]["egress"]
    ports = {
        port["port"]: [picked(one["podSelector"]["matchLabels"]) for one in rule.get("to", [])]
        for rule in rules
        for port in rule["ports"]
    }
    assert ports == {
        53: [], "valkey": [[CLUSTER]], 443: [], 5432: [], 6379: [], 26379: [],
    }  # fmt: skip


def test_a_field_that_it_does_not_know_would_be_found():
    wrong = copy.deepcopy(ALL["Deployment", RELEASE])
    wrong["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessprobe"):
        kubernetes_validate.validate(wrong, "1.37", strict=True)


def test_the_gateway_takes_its_configuration_without_a_word(config):
    assert config.warnings == ()
    assert config.on_store_error == "allow"


async def test_the_gateway_would_start_with_it(config, gateway_env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {gateway_env["ADMIN_TOKEN"], gateway_env["READ_TOKEN"]} == {SECRET}
    env = gateway_env | {"READ_TOKEN": OTHER}
    token = token_from_env(config.gateway.admin_token_env, "admin", env)
    read_token = token_from_env(config.gateway.read_token_env, "read", env)
    assert (token, read_token) == (SECRET, OTHER)
    AdminServer(App(config, env), config.gateway.admin, token_access(token, read_token))
    listen, may_be_open = config.gateway.listen.host, config.gateway.allow_anonymous
    check_exposure(listen, has_keys=False, allow_anonymous=may_be_open)


def test_ports_are_those_that_the_gateway_listens_at(config):
    gateway = config.gateway
    assert ports(GATEWAY) == {"http": gateway.listen.port, "admin": gateway.admin.port}
    assert {gateway.listen.host, gateway.admin.host} == {"0.0.0.0"}


@pytest.mark.parametrize(
    ("probe", "path"), [("readinessProbe", "/readyz"), ("livenessProbe", "/livez")]
)
def test_probes_ask_what_needs_no_token(probe, path):
    asked = GATEWAY["containers"][0][probe]["httpGet"]
    assert asked == {"path": path, "port": "admin"}
    assert path in UNAUTHENTICATED_PATHS


def test_the_service_does_not_show_the_admin_port():
    (port,) = ALL["Service", RELEASE]["spec"]["ports"]
    assert port["targetPort"] == "http"


def test_a_stopping_pod_has_time_for_its_calls(config):
    gateway = config.gateway
    assert GATEWAY["terminationGracePeriodSeconds"] > gateway.stop_delay + gateway.grace
    probe = GATEWAY["containers"][0]["readinessProbe"]
    assert gateway.stop_delay > probe["periodSeconds"] * probe["failureThreshold"]
    # Never fewer than there were, and a new one counts only when it is ready.
    strategy = ALL["Deployment", RELEASE]["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxSurge": 1, "maxUnavailable": 0}


def test_a_history_that_is_full_fits_into_its_volume_beside_its_log(config):
    (volume,) = [one for one in GATEWAY["volumes"] if "emptyDir" in one]
    assert size(volume["emptyDir"]["sizeLimit"]) >= 2 * config.incidents.max_size


def test_the_store_is_pods_of_the_cluster(config):
    plan = parse_store_url(config.store)
    addresses = plan.servers
    stateful = ALL["StatefulSet", CLUSTER]["spec"]
    pods = {f"{CLUSTER}-{n}.{stateful['serviceName']}" for n in range(stateful["replicas"])}
    assert plan.kind == "cluster"
    assert {address.password for address in addresses} == {SECRET}
    assert {address.port for address in addresses} == {ports(VALKEY)["valkey"]}
    assert {address.host for address in addresses} < pods


def test_the_cluster_has_a_headless_service_that_names_unready_pods():
    service = ALL["Service", ALL["StatefulSet", CLUSTER]["spec"]["serviceName"]]["spec"]
    assert service["clusterIP"] == "None"
    assert service["publishNotReadyAddresses"] is True


def test_the_scripts_count_as_many_pods_as_there_are():
    everyone = " ".join(map(str, range(ALL["StatefulSet", CLUSTER]["spec"]["replicas"])))
    scripts = ALL["ConfigMap", CLUSTER]["data"]
    for name in ("start.sh", "create.sh"):
        assert f"for peer in {everyone}; do" in scripts[name]
    more = manifests("valkey.shards=5", release=RELEASE)
    assert more["StatefulSet", CLUSTER]["spec"]["replicas"] == 10
    assert "0 1 2 3 4 5 6 7 8 9; do" in more["ConfigMap", CLUSTER]["data"]["create.sh"]


@pytest.mark.parametrize("name", [RELEASE, CLUSTER])
def test_selectors_bind_the_pods_they_mean(name):
    workload = WORKLOADS[name]["spec"]
    assert picked(workload["selector"]["matchLabels"]) == [name]
    assert picked(ALL["Service", name]["spec"]["selector"]) == [name]
    assert picked(ALL["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"]) == [name]
    for port in ALL["Service", name]["spec"]["ports"]:
        assert port["targetPort"] in ports(workload["template"]["spec"])


def test_only_gateways_and_the_cluster_itself_reach_valkey():
    policy = ALL["NetworkPolicy", CLUSTER]["spec"]
    assert picked(policy["podSelector"]["matchLabels"]) == [CLUSTER]
    allowed = {
        port["port"]: {
            name for one in rule["from"] for name in picked(one["podSelector"]["matchLabels"])
        }
        for rule in policy["ingress"]
        for port in rule["ports"]
    }
    assert allowed["bus"] == {CLUSTER}
    callers = [
        name
        for rule in policy["ingress"]
        for one in rule["from"]
        for name in picked(one["podSelector"]["matchLabels"])
    ]
    assert sorted(callers) == [RELEASE, CLUSTER, f"{CLUSTER}-create"]


def test_the_autoscaler_keeps_two_and_scales_what_exists():
    scaler = ALL["HorizontalPodAutoscaler", RELEASE]["spec"]
    target = scaler["scaleTargetRef"]
    assert (target["kind"], target["name"]) in ALL
    assert scaler["minReplicas"] >= 2
    assert "replicas" not in ALL["Deployment", RELEASE]["spec"]
    assert [one["resource"]["name"] for one in scaler["metrics"]] == ["cpu"]


@pytest.mark.parametrize(("pod", "container"), containers())
def test_no_container_may_do_more_than_it_must(pod, container):
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(("pod", "container"), containers())
def test_every_container_says_what_it_needs(pod, container):
    resources = container["resources"]
    assert set(resources["requests"]) == {"cpu", "memory"}
    assert size(resources["limits"]["memory"]) >= size(resources["requests"]["memory"])


@pytest.mark.parametrize(("pod", "container"), containers())
def test_every_image_has_a_version(pod, container):
    name, _, version = container["image"].partition(":")
    assert re.match(r"\d+\.\d+\.\d+", version)
    if name == "looptrap":
        assert version == __version__


@pytest.mark.parametrize(("pod", "container"), containers())
def test_what_is_mounted_exists(pod, container):
    claims = ALL["StatefulSet", CLUSTER]["spec"]["volumeClaimTemplates"]
    volumes = {one["name"]: one for one in pod["volumes"]}
    known = {*volumes, *(one["metadata"]["name"] for one in claims)}
    assert {mount["name"] for mount in container["volumeMounts"]} <= known
    for volume in volumes.values():
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in ALL


def test_the_page_makes_every_secret_that_is_asked_for():
    page = (ROOT / "docs" / "scale.md").read_text("utf-8")
    made = {
        (name, key)
        for name, rest in re.findall(r"create secret generic (\S+)((?:.*\\\n)*.*)", page)
        for key in re.findall(r"--from-literal=([a-z-]+)=", rest)
    }
    asked = {
        (reference["name"], reference["key"])
        for workload in WORKLOADS.values()
        for container in workload["spec"]["template"]["spec"]["containers"]
        for one in container.get("env", [])
        if (reference := one.get("valueFrom", {}).get("secretKeyRef"))
    }
    assert made == asked


def test_a_full_shard_fits_into_its_pod():
    conf = dict(
        line.split(maxsplit=1)
        for line in ALL["ConfigMap", CLUSTER]["data"]["valkey.conf"].splitlines()
        if line and not line.startswith("#")
    )
    limit = size(VALKEY["containers"][0]["resources"]["limits"]["memory"])
    assert size(conf["maxmemory"]) <= 0.8 * limit
    # Counts may go before their time; what has no end, such as the digest key, may not.
    assert conf["maxmemory-policy"] == "volatile-ttl"
