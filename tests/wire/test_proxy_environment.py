"""Which proxy an environment asks for, and how origins are read from URLs."""

import pytest

from looptrap.wire.origin import Origin, Proxy, ProxyEnvironment


@pytest.mark.parametrize(
    ("environ", "url", "expected"),
    [
        pytest.param({}, "https://a.test", None, id="no proxy"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "https://a.test", "p:1", id="https"),
        pytest.param({"HTTPS_PROXY": "http://p:1"}, "http://a.test", None, id="https only"),
        pytest.param({"HTTP_PROXY": "http://p:1"}, "http://a.test", "p:1", id="http"),
        pytest.param({"http_proxy": "http://p:1"}, "http://a.test", "p:1", id="lower case"),
        pytest.param(
            {"http_proxy": "low:1", "HTTP_PROXY": "up:2"}, "http://a.test", "low:1", id="both cases"
        ),
        pytest.param({"ALL_PROXY": "p:1"}, "https://a.test", "p:1", id="all, without a scheme"),
        pytest.param(
            {"ALL_PROXY": "p:1", "HTTPS_PROXY": "q:2"}, "https://a.test", "q:2", id="own over all"
        ),
        pytest.param({"HTTPS_PROXY": ""}, "https://a.test", None, id="empty"),
        pytest.param({"HTTPS_PROXY": "http://p"}, "https://a.test", "p:80", id="default port"),
        pytest.param({"HTTP_PROXY": "[::1]:3128"}, "http://a.test", "[::1]:3128", id="IPv6"),
    ],
)
def test_chooses_the_proxy_of_the_scheme(environ, url, expected):
    proxy = ProxyEnvironment(environ).choose(Origin.of(url)[0])
    assert (proxy and str(proxy)) == expected


@pytest.mark.parametrize(
    ("no_proxy", "url", "direct"),
    [
        pytest.param("*", "http://a.test", True, id="everything"),
        pytest.param("a.test", "http://a.test", True, id="the host"),
        pytest.param("A.Test", "http://a.TEST", True, id="the host in another case"),
        pytest.param("a.test", "http://b.a.test", True, id="a subdomain"),
        pytest.param("a.test", "http://ba.test", False, id="not a mere suffix"),
        pytest.param(".a.test", "http://b.a.test", True, id="a dotted suffix"),
        pytest.param(".a.test", "http://a.test", False, id="a dotted suffix without its apex"),
        pytest.param("*.a.test", "http://b.a.test", True, id="a starred suffix"),
        pytest.param("x, a.test", "http://a.test", True, id="a list with commas"),
        pytest.param("x a.test", "http://a.test", True, id="a list with spaces"),
        pytest.param("a.test:8080", "http://a.test:8080", True, id="with its port"),
        pytest.param("a.test:8080", "http://a.test", False, id="with another port"),
        pytest.param("10.0.0.1", "http://10.0.0.1", True, id="an address"),
        pytest.param("10.0.0.1:81", "http://10.0.0.1:81", True, id="an address with its port"),
        pytest.param("10.0.0.1:81", "http://10.0.0.1", False, id="an address with another port"),
        pytest.param("10.0.0.0/8", "http://10.9.8.7", True, id="a network"),
        pytest.param("10.0.0.0/8", "http://11.9.8.7", False, id="another network"),
        pytest.param("10.0.0.0/8", "http://a.test", False, id="a network and a name"),
        pytest.param("10.0.0.0/8", "http://[::1]", False, id="a network and the other family"),
        pytest.param("::1", "http://[::1]", True, id="an IPv6 address"),
        pytest.param("[::1]", "http://[::1]", True, id="an IPv6 address in brackets"),
        pytest.param("[::1]:81", "http://[::1]:81", True, id="an IPv6 address with its port"),
        pytest.param("[::1]:81", "http://[::1]", False, id="an IPv6 address with another port"),
        pytest.param("fd00::/8", "http://[fd12::1]", True, id="an IPv6 network"),
        pytest.param("", "http://a.test", False, id="nothing"),
    ],
)
def test_no_proxy_exempts(no_proxy, url, direct):
    proxies = ProxyEnvironment({"HTTP_PROXY": "p:1", "NO_PROXY": no_proxy})
    assert (proxies.choose(Origin.of(url)[0]) is None) == direct


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("socks5://p:1", "scheme is 'socks5', must be http", id="another scheme"),
        pytest.param("http://", "no host", id="no host"),
        pytest.param("p:99999", "Port out of range", id="bad port"),
    ],
)
def test_refuses_a_proxy_that_it_cannot_use(url, message):
    with pytest.raises(ValueError, match=message):
        ProxyEnvironment({"ALL_PROXY": url})


def test_a_password_is_not_shown():
    assert "secret" not in repr(Proxy.of("http://user:secret@p:1"))
    with pytest.raises(ValueError) as refused:
        Proxy.of("socks5://user:secret@p:1")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "origin", "path", "authority"),
    [
        ("https://api.openai.com", ("https", "api.openai.com", 443), "", "api.openai.com"),
        ("https://api.openai.com/v1/", ("https", "api.openai.com", 443), "/v1", "api.openai.com"),
        ("HTTP://Host.Test:80/a/b", ("http", "host.test", 80), "/a/b", "host.test"),
        ("http://host.test:443", ("http", "host.test", 443), "", "host.test:443"),
        ("http://[::1]:8080", ("http", "::1", 8080), "", "[::1]:8080"),
        ("https://bücher.test", ("https", "xn--bcher-kva.test", 443), "", "xn--bcher-kva.test"),
    ],
)
def test_reads_an_origin_and_the_path_below_it(url, origin, path, authority):
    found, base = Origin.of(url)
    assert (found.scheme, found.host, found.port) == origin
    assert base == path
    assert found.authority == authority


@pytest.mark.parametrize(
    ("url", "message"),
    [
        pytest.param("api.openai.com", "scheme is ''", id="no scheme"),
        pytest.param("ftp://a.test", "must be http or https", id="another scheme"),
        pytest.param("https://", "no host", id="no host"),
        pytest.param("https://a.test:0", "port is 0", id="port 0"),
        pytest.param("https://a.test:x", "Port could not be cast", id="port not a number"),
        pytest.param("https://a.test/?q", "no query", id="query"),
        pytest.param("https://a.test/\r\nX: y", "control characters", id="line end"),
        pytest.param("https://[::1", "Invalid IPv6", id="open bracket"),
    ],
)
def test_refuses_what_is_not_a_base_url(url, message):
    with pytest.raises(ValueError, match=message):
        Origin.of(url)


def test_refuses_a_password_without_repeating_it():
    with pytest.raises(ValueError, match="user name or password") as refused:
        Origin.of("https://user:secret@a.test")
    assert "secret" not in str(refused.value)
