"""What several workers count, as one."""

from prometheus_client.parser import text_string_to_metric_families

from looptrap.admin.metrics import MetricTotals

TEXT = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total{{verdict="allow"}} {requests}
# HELP looptrap_connections Clients.
# TYPE looptrap_connections gauge
looptrap_connections {connections}
"""


def told(requests, connections=0):
    return TEXT.format(requests=requests, connections=connections)


def sums(totals, workers=0, restarts=0):
    text = totals.exposition(workers=workers, restarts=restarts).decode()
    families = {one.name: one for one in text_string_to_metric_families(text)}
    assert families["looptrap_requests"].type == "counter"
    assert families["looptrap_requests"].documentation == "Requests."
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families.values()
        for sample in family.samples
    }


def test_counters_and_gauges_are_summed_over_workers():
    totals = MetricTotals()
    totals.add(1, told(3.0, 2))
    totals.add(2, told(4.0, 5))
    assert sums(totals, workers=2, restarts=7) == {
        ("looptrap_requests_total", "allow"): 7,
        ("looptrap_connections",): 7,
        ("looptrap_workers",): 2,
        ("looptrap_worker_restarts_total",): 7,
    }


def test_a_worker_that_is_asked_again_counts_once():
    totals = MetricTotals()
    totals.add(1, told(3.0))
    totals.add(1, told(5.0))
    assert sums(totals)["looptrap_requests_total", "allow"] == 5


def test_no_counter_goes_back_when_a_worker_ends_and_no_gauge_stays():
    totals = MetricTotals()
    totals.add(1, told(3.0, 2))
    totals.add(2, told(4.0, 5))
    totals.retire_all_but([2])
    totals.add(3, told(1.0, 1))
    totals.retire_all_but([2, 3])
    found = sums(totals)
    assert found["looptrap_requests_total", "allow"] == 8
    assert found["looptrap_connections",] == 6


HISTOGRAM = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total 1.0
# HELP looptrap_decision_seconds Time.
# TYPE looptrap_decision_seconds histogram
looptrap_decision_seconds_bucket{{le="0.01"}} {fast}
looptrap_decision_seconds_bucket{{le="+Inf"}} {all}
looptrap_decision_seconds_count {all}
looptrap_decision_seconds_sum {sum}
"""


def test_histograms_are_summed_bucket_by_bucket_and_outlast_their_worker():
    totals = MetricTotals()
    totals.add(1, HISTOGRAM.format(fast=1.0, all=2.0, sum=0.5))
    totals.add(2, HISTOGRAM.format(fast=10.0, all=10.0, sum=0.05))
    totals.retire_all_but([2])
    found = sums(totals)
    assert found["looptrap_decision_seconds_bucket", "0.01"] == 11
    assert found["looptrap_decision_seconds_bucket", "+Inf"] == 12
    assert found["looptrap_decision_seconds_count",] == 12
    assert found["looptrap_decision_seconds_sum",] == 0.55


SHARED = """\
# HELP looptrap_requests_total Requests.
# TYPE looptrap_requests_total counter
looptrap_requests_total 1.0
# HELP looptrap_outbox Alerts.
# TYPE looptrap_outbox gauge
looptrap_outbox{{state="dead"}} {dead}
# HELP looptrap_indicator_firing Whether.
# TYPE looptrap_indicator_firing gauge
looptrap_indicator_firing{{indicator="latency"}} {firing}
# HELP looptrap_incidents_open Open.
# TYPE looptrap_incidents_open gauge
looptrap_incidents_open {open}
"""


def test_what_all_workers_see_is_counted_once():
    totals = MetricTotals()
    totals.add(1, SHARED.format(dead=3.0, firing=1.0, open=2.0))
    totals.add(2, SHARED.format(dead=3.0, firing=0.0, open=2.0))
    found = sums(totals)
    assert found["looptrap_outbox", "dead"] == 3
    assert found["looptrap_indicator_firing", "latency"] == 1
    assert found["looptrap_incidents_open",] == 2
