"""Which addresses an outgoing request may go to."""

import socket

import pytest

from looptrap.incident.alert.webhook import DeliveryError, PinnedResolver, WebhookTarget, is_public

CLOSED = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.8.9.10",
    "private, 10": "10.1.2.3",
    "private, 172.16": "172.31.255.255",
    "private, 192.168": "192.168.0.1",
    "where clouds hand out credentials": "169.254.169.254",
    "Azure's host": "168.63.129.16",
    "a carrier's own": "100.64.0.1",
    "Alibaba's metadata": "100.100.100.200",
    "unspecified": "0.0.0.0",
    "this network": "0.1.2.3",
    "multicast": "239.1.1.1",
    "broadcast": "255.255.255.255",
    "reserved": "240.0.0.1",
    "documentation": "192.0.2.1",
    "benchmarks": "198.19.0.1",
    "IPv6 loopback": "::1",
    "IPv6 unspecified": "::",
    "IPv6 unique local": "fd00:ec2::254",
    "IPv6 link-local": "fe80::1",
    "IPv6 link-local with its zone": "fe80::1%eth0",
    "IPv6 site-local": "fec0::1",
    "IPv6 multicast": "ff02::1",
    "IPv6 documentation": "2001:db8::1",
    "IPv4-mapped loopback": "::ffff:127.0.0.1",
    "IPv4-mapped public": "::ffff:8.8.8.8",
    "IPv4-compatible": "::127.0.0.1",
    "NAT64 of loopback": "64:ff9b::7f00:1",
    "NAT64 of metadata": "64:ff9b::a9fe:a9fe",
    "local NAT64": "64:ff9b:1::1",
    "6to4 of loopback": "2002:7f00:1::",
    "6to4 of a public address": "2002:808:808::1",
    "Teredo": "2001:0:808:808::1",
}
OPEN = {
    "public": "8.8.8.8",
    "beside 172.16": "172.32.0.1",
    "beside carriers": "100.128.0.1",
    "IPv6": "2606:4700::1111",
    "NAT64 of a public address": "64:ff9b::808:808",
}


@pytest.mark.parametrize("address", CLOSED.values(), ids=CLOSED)
def test_is_not_of_the_open_internet(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", OPEN.values(), ids=OPEN)
def test_is_of_the_open_internet(address):
    assert is_public(address)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        pytest.param("http://example.com/s3cret", "is plain http", id="plain http"),
        pytest.param("ftp://example.com/s3cret", "must begin with https://", id="another scheme"),
        pytest.param("example.com/s3cret", "must begin with https://", id="no scheme"),
        pytest.param("https:///s3cret", "no host|cannot be read", id="no host"),
        pytest.param("https://example.com:0/s3cret", "port 0", id="port 0"),
        pytest.param("https://example.com:99999/s3cret", "cannot be read", id="no such port"),
        pytest.param("https://example.com/s3cret x", "spaces", id="a space"),
        pytest.param("https://example.com/s3cret\r\nX: y", "control", id="a line break"),
        pytest.param("https://u:s3cret@127.0.0.1/s3cret", "is not public", id="loopback"),
        pytest.param("https://[::1]/s3cret", "leads to ::1", id="IPv6 loopback"),
        pytest.param("https://[::ffff:10.0.0.1]/s3cret", "is not public", id="IPv4-mapped"),
        pytest.param("https://[fe80::1%25eth0]/s3cret", "is not public", id="link-local"),
        pytest.param("https://169.254.169.254/s3cret", "is not public", id="metadata"),
        pytest.param("https://2130706433/s3cret", "stands for an address", id="one number"),
        pytest.param("https://0x7f000001/s3cret", "stands for an address", id="hexadecimal"),
        pytest.param("https://0177.0.0.1/s3cret", "stands for an address", id="octal"),
        pytest.param("https://127.1/s3cret", "stands for an address", id="short"),
        pytest.param("https://127.0.0.1./s3cret", "stands for an address", id="a dot at the end"),
        pytest.param("https://1.2.3.4.5/s3cret", "stands for an address", id="digits and dots"),
        pytest.param("https://\uff11\uff12\uff17.0.0.1/s3cret", "is not public", id="wide digits"),
        pytest.param(
            "https://127\u30020\u30020\u30021/s3cret",
            "is not public|stands for",
            id="ideographic dots",
        ),
        pytest.param(
            "https://%31%32%37.0.0.1/s3cret", "neither a name nor an address", id="per cent signs"
        ),
    ],
)
def test_refuses_a_url_and_repeats_nothing_secret(url, wrong):
    with pytest.raises(ValueError, match=wrong) as refused:
        WebhookTarget.of(url)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "allowed", "shown"),
    [
        pytest.param(
            "https://user:s3cret@Example.COM/hook/s3cret?t=s3cret",
            {},
            "https://example.com:443",
            id="https",
        ),
        pytest.param(
            "http://example.com/s3cret",
            {"allow_http": True},
            "http://example.com:80",
            id="http where allowed",
        ),
        pytest.param(
            "https://[::1]:8443/s3cret",
            {"allow_private": True},
            "https://[::1]:8443",
            id="loopback where allowed",
        ),
        pytest.param("https://8.8.8.8/s3cret", {}, "https://8.8.8.8:443", id="a public address"),
        pytest.param(
            "https://b\u00fccher.example/s3cret",
            {},
            "https://xn--bcher-kva.example:443",
            id="a name in other letters",
        ),
    ],
)
def test_a_target_shows_its_origin_only(url, allowed, shown):
    target = WebhookTarget.of(url, **allowed)
    assert str(target) == shown
    assert "s3cret" not in repr(target)


def answering(*answers):
    """Look up hosts with prepared answers, one after the other."""
    left = list(answers)

    async def lookup(_host, _port):
        return left.pop(0)

    return lookup


TARGET = WebhookTarget.of("https://hooks.example/s3cret")


async def test_all_addresses_of_a_public_host_are_connected_to_as_they_were_looked_at():
    pinned = PinnedResolver(TARGET, answering(["8.8.8.8", "2606:4700::1111"]))
    found = await pinned.resolve("hooks.example", 443)
    assert [(one["host"], one["port"], one["family"]) for one in found] == [
        ("8.8.8.8", 443, socket.AF_INET),
        ("2606:4700::1111", 443, socket.AF_INET6),
    ]
    assert {one["hostname"] for one in found} == {"hooks.example"}


@pytest.mark.parametrize("address", CLOSED.values(), ids=CLOSED)
async def test_one_address_that_is_not_public_refuses_the_host(address):
    pinned = PinnedResolver(TARGET, answering(["8.8.8.8", address]))
    with pytest.raises(DeliveryError, match="is not public") as refused:
        await pinned.resolve("hooks.example", 443)
    assert "s3cret" not in refused.value.reason
    assert not refused.value.is_final  # names change their meaning, and mistakes are mended


async def test_a_private_host_is_fine_where_that_is_allowed():
    target = WebhookTarget.of("https://hooks.example/", allow_private=True)
    found = await PinnedResolver(target, answering(["10.0.0.1"])).resolve("hooks.example", 443)
    assert found[0]["host"] == "10.0.0.1"


async def test_a_host_without_an_address_is_a_failure():
    with pytest.raises(DeliveryError, match="no address found"):
        await PinnedResolver(TARGET, answering([])).resolve("hooks.example", 443)


async def test_the_system_is_asked_for_names():
    target = WebhookTarget.of("https://localhost/")
    with pytest.raises(DeliveryError, match=r"https://localhost:443 leads to .*, which is not"):
        await PinnedResolver(target).resolve("localhost", 443)
