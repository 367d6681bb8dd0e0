"""The compose file and the image agree with the gateway that they run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.files import COMPOSE, DOCKERFILE, ROOT, compose, configured, documents

from looptrap import __version__
from looptrap.admin.auth import token_access
from looptrap.admin.server import AdminServer
from looptrap.gateway.app import App
from looptrap.gateway.auth import check_exposure, token_from_env
from looptrap.store.redis.address import parse_store_url

FILE = COMPOSE / "compose.yaml"
(WHOLE,) = documents(FILE)
SERVICES = compose()
GATEWAYS = [name for name in SERVICES if name.startswith("gateway-")]
SECRETS = ("LOOPTRAP_ADMIN_TOKEN", "LOOPTRAP_READ_TOKEN", "GRAFANA_PASSWORD")


def mounted(service):
    """Return what a service has mounted, as (where from, where to, whether read-only)."""
    return [
        (source, target, mode == ["ro"])
        for source, target, *mode in (one.split(":") for one in service.get("volumes", ()))
    ]


# As its own readers do


def test_it_is_what_the_specification_of_compose_asks_for():
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.compose-spec", FILE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("told", [FILE, ROOT / "docs" / "deploy.md"], ids=lambda path: path.name)
def test_people_are_told_to_make_every_secret_that_is_asked_for(told):
    (made,) = re.findall(r"for name in (.+); do", told.read_text("utf-8"))
    asked = re.findall(r"\$\{(\w+):\?", FILE.read_text("utf-8"))
    assert set(made.split()) == set(SECRETS) == set(asked)


# Gateways


@pytest.fixture(params=GATEWAYS)
def gateway(request):
    return SERVICES[request.param]


@pytest.fixture
def env(gateway):
    """Return a gateway's variables; those without a value are left to who starts it."""
    return {name: value for name, value in gateway["environment"].items() if value is not None}


@pytest.fixture
def config(gateway, env):
    files = {target: COMPOSE / source for source, target, is_fixed in mounted(gateway) if is_fixed}
    return configured(gateway["command"], files, env)


def test_there_are_two_gateways_one_place_where_they_count_and_those_who_watch():
    assert len(GATEWAYS) == 2
    assert set(SERVICES) - set(GATEWAYS) == {"valkey", "prometheus", "grafana", "nginx"}
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["nginx"]


async def test_a_gateway_would_start_with_its_configuration(config, env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.warnings == ()
    plan = parse_store_url(config.store)
    assert (plan.kind, [one.host for one in plan.servers]) == ("single", ["valkey"])
    token = token_from_env(config.gateway.admin_token_env, "admin", env)
    read_token = token_from_env(config.gateway.read_token_env, "read", env)
    assert (token, read_token) == SECRETS[:2]
    AdminServer(App(config, env), config.gateway.admin, token_access(token, read_token))
    listen, may_be_open = config.gateway.listen.host, config.gateway.allow_anonymous
    check_exposure(listen, has_keys=False, allow_anonymous=may_be_open)


def test_a_gateway_is_reached_from_this_machine_only(config, gateway):
    served = [config.gateway.listen, config.gateway.admin]
    assert {one.host for one in served} == {"0.0.0.0"}, "of the container"
    for published, one in zip(gateway["ports"], served, strict=True):
        assert re.fullmatch(rf"127\.0\.0\.1:\d+:{one.port}", published)


def test_a_stopping_gateway_has_time_for_its_calls(config, gateway):
    assert int(gateway["stop_grace_period"].removesuffix("s")) > config.gateway.grace


def test_no_two_services_want_one_port():
    published = [
        port.rsplit(":", 1)[0] for one in SERVICES.values() for port in one.get("ports", ())
    ]
    assert all(one.startswith("127.0.0.1:") for one in published)
    assert len(published) == len(set(published)) == 7


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_may_do_more_than_it_must(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert set(service["deploy"]["resources"]["limits"]) == {"cpus", "memory"}


@pytest.mark.parametrize("name", SERVICES)
def test_every_image_has_a_version(name):
    image, _, version = SERVICES[name]["image"].partition(":")
    assert re.match(r"v?\d+\.\d+", version)
    if image == "looptrap":
        assert version == __version__


@pytest.mark.parametrize("name", SERVICES)
def test_every_mounted_file_is_here_and_fixed_and_every_volume_declared(name):
    for source, _, is_fixed in mounted(SERVICES[name]):
        is_file = source.startswith(".")
        assert is_fixed == is_file
        assert (COMPOSE / source).is_file() if is_file else source in WHOLE["volumes"]


def test_what_is_kept_has_a_volume_of_its_own():
    kept = {
        source: (name, target)
        for name, service in SERVICES.items()
        for source, target, is_fixed in mounted(service)
        if not is_fixed
    }
    folder = re.search(r"^WORKDIR (/var\S+)", DOCKERFILE.read_text("utf-8"), re.MULTILINE)[1]
    assert kept == {
        **{name: (name, folder) for name in GATEWAYS},
        "prometheus": ("prometheus", "/prometheus"),
    }
    assert set(kept) == set(WHOLE["volumes"])


def test_only_gateways_reach_valkey_which_asks_for_no_password():
    assert WHOLE["networks"]["counts"] == {"internal": True}
    inside = {name for name, one in SERVICES.items() if "counts" in one.get("networks", ())}
    assert inside == {*GATEWAYS, "valkey"}
    assert SERVICES["valkey"]["networks"] == ["counts"]


# What watches them


def test_prometheus_scrapes_every_gateway_and_knows_its_alerts(config):
    (content,) = documents(COMPOSE / "prometheus.yml")
    (job,) = content["scrape_configs"]
    port = config.gateway.admin.port
    assert job["job_name"] == "looptrap", "as alerts and dashboard call it"
    assert job["static_configs"] == [{"targets": [f"{name}:{port}" for name in GATEWAYS]}]
    folder = Path("/etc/prometheus")
    targets = [target for _, target, _ in mounted(SERVICES["prometheus"])]
    assert {str(folder / one) for one in content["rule_files"]} <= set(targets)


def test_grafana_is_given_its_prometheus_and_the_dashboard():
    service = SERVICES["grafana"]
    at = {source: target for source, target, _ in mounted(service)}
    (source,) = documents(COMPOSE / "datasource.yaml")[0]["datasources"]
    (published,) = SERVICES["prometheus"]["ports"]
    assert source["type"] == "prometheus"
    assert source["isDefault"] is True
    assert source["url"] == f"http://prometheus:{published.rpartition(':')[2]}"
    interval = documents(COMPOSE / "prometheus.yml")[0]["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    assert Path(at["./datasource.yaml"]).parent.name == "datasources"
    (provider,) = documents(COMPOSE / "dashboards.yaml")[0]["providers"]
    assert Path(at["./dashboards.yaml"]).parent.name == "dashboards"
    dashboard = at["../grafana/looptrap.json"]
    assert str(Path(dashboard).parent) == provider["options"]["path"]
    assert service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard


# The rest


def test_nginx_spreads_over_all_gateways(needs, config, tmp_path):
    text = (COMPOSE / "nginx.conf").read_text("utf-8")
    asked = re.findall(r"^ +server (\S+);$", text, re.MULTILINE)
    assert asked == [f"{name}:{config.gateway.listen.port}" for name in GATEWAYS]
    assert f"127.0.0.1:8080:{re.search(r'listen (.*);', text)[1]}" in SERVICES["nginx"]["ports"]
    for name in GATEWAYS:
        text = text.replace(f"server {name}:", "server 127.0.0.1:")
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {text} }}")
    command = [needs("nginx", "nginx-light"), "-t", "-p", tmp_path, "-c", whole, "-e", "stderr"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr


def test_the_image_is_asked_for_its_health_where_gateways_answer(config):
    asked = f"http://127.0.0.1:{config.gateway.admin.port}/readyz"
    assert asked in DOCKERFILE.read_text("utf-8")
