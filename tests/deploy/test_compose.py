"""The compose file and the image agree with the gateway that they run."""

import re
import subprocess

import pytest
from tests.deploy.files import COMPOSE, DOCKERFILE, ROOT, compose, configured

from looptrap import __version__
from looptrap.gateway.app import App
from looptrap.gateway.auth import check_exposure
from looptrap.store.redis.address import addresses_of

SERVICES = compose()
GATEWAYS = [name for name in SERVICES if name.startswith("gateway-")]


@pytest.fixture(params=GATEWAYS)
def gateway(request):
    return SERVICES[request.param]


@pytest.fixture
def config(gateway):
    (mounted,) = gateway["volumes"]
    source, target, mode = mounted.split(":")
    assert mode == "ro"
    return configured(gateway["command"], {target: COMPOSE / source}, gateway["environment"])


def test_there_are_two_gateways_and_one_place_where_they_count():
    assert len(GATEWAYS) == 2
    assert set(SERVICES) - set(GATEWAYS) == {"valkey", "nginx"}
    assert SERVICES["nginx"]["profiles"] == ["front"]


async def test_a_gateway_would_start_with_its_configuration(config, gateway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.warnings == ()
    (address,), is_cluster = addresses_of(config.store)
    assert (address.host, is_cluster) == ("valkey", False)
    App(config, gateway["environment"])
    listen, may_be_open = config.gateway.listen.host, config.gateway.allow_anonymous
    check_exposure(listen, has_keys=False, allow_anonymous=may_be_open)


def test_clients_reach_a_gateway_from_this_machine_and_operators_from_inside(config, gateway):
    (published,) = gateway["ports"]
    assert re.fullmatch(rf"127\.0\.0\.1:\d+:{config.gateway.listen.port}", published)
    assert config.gateway.admin.host == "127.0.0.1"


def test_a_stopping_gateway_has_time_for_its_calls(config, gateway):
    assert int(gateway["stop_grace_period"].removesuffix("s")) > config.gateway.grace


def test_no_two_services_want_one_port():
    published = [
        port.rsplit(":", 1)[0] for one in SERVICES.values() for port in one.get("ports", ())
    ]
    assert len(published) == len(set(published)) == 3


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
    assert re.match(r"\d+\.\d+", version)
    if image == "looptrap":
        assert version == __version__


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_is_kept_and_every_mounted_file_is_here(name):
    for mounted in SERVICES[name].get("volumes", ()):
        source, _, mode = mounted.split(":")
        assert mode == "ro"
        assert (COMPOSE / source).is_file()


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


def test_the_image_is_small_pinned_and_not_roots():
    text = DOCKERFILE.read_text("utf-8")
    stages = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(stages) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim", stage) for stage in stages)
    assert re.search(r"^USER ([1-9]\d*):", text, re.MULTILINE)
    assert f"looptrap:{__version__} " in text


def test_a_gateway_can_write_where_the_image_says_it_runs(gateway):
    text = DOCKERFILE.read_text("utf-8")
    folder = re.search(r"^WORKDIR (/var\S+)", text, re.MULTILINE)[1]
    user = re.search(r"^USER (\d+):", text, re.MULTILINE)[1]
    assert [f"{folder}:uid={user},gid={user},mode=0700"] == gateway["tmpfs"]


def test_the_image_copies_what_there_is():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    for path in " ".join(copied).split():
        assert (ROOT / path).exists(), path


def test_the_image_is_asked_for_its_health_where_gateways_answer(config):
    assert f"http://{config.gateway.admin}/readyz" in DOCKERFILE.read_text("utf-8")
