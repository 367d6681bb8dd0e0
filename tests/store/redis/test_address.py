"""URLs of stores: what they mean, and what is said about those that mean nothing."""

import pytest

from looptrap.store.redis.address import StoreAddress, StorePlan, parse_store_url


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://cache", StoreAddress(host="cache")),
        ("redis://cache:7000/3", StoreAddress(host="cache", port=7000, db=3)),
        ("redis://cache/?db=3", StoreAddress(host="cache", db=3)),
        ("redis://:pw@[::1]:7000", StoreAddress(host="::1", port=7000, password="pw")),
        ("redis://me:p%40w%2F@cache", StoreAddress(host="cache", user="me", password="p@w/")),
        ("redis://:p[w]@cache", StoreAddress(host="cache", password="p[w]")),
        ("redis://:p\N{CARE OF}w@cache", StoreAddress(host="cache", password="p\N{CARE OF}w")),
        (
            "rediss://cache?ca=/etc/ca.pem",
            StoreAddress(host="cache", is_tls=True, ca="/etc/ca.pem"),
        ),
        ("unix:///run/a%20b.sock?db=2", StoreAddress(path="/run/a b.sock", db=2)),
        ("unix://me:pw@/run/s", StoreAddress(path="/run/s", user="me", password="pw")),
    ],
)
def test_one_server(url, expected):
    assert parse_store_url(url) == StorePlan(kind="single", servers=(expected,))


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster"])
def test_servers_of_a_cluster_are_entered_alike(scheme):
    plan = parse_store_url(f"{scheme}://me:pw@a:7000,b,[::1]:7002")
    assert plan.kind == "cluster"
    places = [(one.host, one.port) for one in plan.servers]
    assert places == [("a", 7000), ("b", 6379), ("::1", 7002)]
    assert {(one.user, one.password, one.is_tls) for one in plan.servers} == {
        ("me", "pw", scheme.startswith("rediss"))
    }


def test_sentinels_are_entered_with_the_name_of_their_primary():
    url = "rediss+sentinel://me:pw@a,b:7000/the%20one/3?sentinel_password=s%40&ca=/ca.pem"
    plan = parse_store_url(url)
    safe = {"is_tls": True, "ca": "/ca.pem"}
    assert plan.kind == "sentinel"
    assert plan.servers == (
        StoreAddress(host="a", port=26379, password="s@", **safe),
        StoreAddress(host="b", port=7000, password="s@", **safe),
    )
    assert plan.primary_name == "the one"
    assert plan.primary == StoreAddress(user="me", password="pw", db=3, **safe)
    bare = parse_store_url("redis+sentinel://a/m?db=2&sentinel_user=u&sentinel_password=p")
    assert (bare.servers[0].user, bare.primary.password, bare.primary.db) == ("u", "", 2)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("memcached://h", "begins with 'memcached://', must be one of redis://, rediss://"),
        ("cache:6379", "begins with 'cache://'"),
        ("redis://", "no host"),
        ("redis://h:0", "port is 0"),
        ("redis://h:port", "'h:port' is not a server of the form host:port"),
        ("redis://h:99999", "'h:99999' is not a server of the form host:port"),
        ("redis://h/first", "database 'first'"),
        ("redis://h/-1", "database '-1'"),
        ("redis://h/1?db=2", "names a database twice"),
        ("redis://h?ca=/x", "'?ca=' is no option of redis://, which takes ?db="),
        ("redis://h?db=", "?db= of the store's URL is empty"),
        ("redis://me@h", "no password before it"),
        ("redis://:pw#x@h", "write %23"),
        ("redis://a,b", "several need redis+cluster:// or redis+sentinel://"),
        ("redis+cluster://a/1", "a cluster has one database only"),
        ("redis+cluster://a?db=1", "takes no option"),
        ("redis+cluster://a,,b", "no host"),
        ("redis+sentinel://a,b", "needs the name of the primary behind them"),
        ("redis+sentinel://a/m/x", "database 'x'"),
        ("redis+sentinel://a/m?name=m", "'?name=' is no option of redis+sentinel://"),
        ("redis://a?sentinel_password=s", "is no option of redis://"),
        ("redis://h?%00db=1", "'?\\x00db=' is no option"),
        ("unix://run/s", "needs three slashes"),
        ("unix://", "needs three slashes"),
        ("redis://h\n", "control characters"),
        ("redis://[::1", "'[::1' is not a server of the form host:port"),
    ],
)
def test_says_what_is_wrong(url, wrong):
    with pytest.raises(ValueError) as raised:
        parse_store_url(url)
    assert wrong in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["redis://me:s3cret@h:port", "redis://me:s3cret@h/x", "x://me:s3cret@h", "redis://:s3cret@[::1",
     "redis://:s3cret @h", "redis://me:s3cret@h?no=1", "unix://me:s3cret@h/s",
     "redis+sentinel://h/m?sentinel_password=s3cret&no=1"],
)  # fmt: skip
def test_no_mistake_tells_the_password(url):
    with pytest.raises(ValueError) as raised:
        parse_store_url(url)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://me:s3cret@h:7000/2", "redis://h:7000"),
        ("rediss://:s3cret@[::1]", "rediss://[::1]:6379"),
        ("unix://:s3cret@/run/s", "unix:///run/s"),
    ],
)
def test_an_address_is_fit_for_logs(url, text):
    [address] = parse_store_url(url).servers
    assert str(address) == text
    assert "s3cret" not in repr(address)
