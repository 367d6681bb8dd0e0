"""Alerts and dashboard: their rules hold in Prometheus's own tests, and name what is there."""

import json
import re
import subprocess
from itertools import combinations

import pytest
from tests.deploy.files import ROOT, documents

PROMETHEUS = ROOT / "deploy" / "prometheus"
ALERTS = PROMETHEUS / "alerts.yml"
UNIT_TESTS = PROMETHEUS / "alerts_test.yml"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "looptrap.json").read_text("utf-8"))
REFERENCE = ROOT / "docs" / "reference" / "metrics.md"

PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


@pytest.fixture
def promtool(needs):
    program = needs("promtool", "prometheus")

    def run(*arguments):
        told = subprocess.run(
            [program, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=120
        )
        return told.returncode, told.stdout + told.stderr

    return run


def rules():
    (content,) = documents(ALERTS)
    return [rule for group in content["groups"] for rule in group["rules"]]


ALARMS = [rule for rule in rules() if "alert" in rule]


def test_prometheus_can_read_the_rules(promtool):
    code, told = promtool("check", "rules", ALERTS.name)
    assert code == 0, told
    assert f"{len(rules())} rules found" in told


def test_the_rules_fire_when_they_should_and_not_else(promtool):
    code, told = promtool("test", "rules", UNIT_TESTS.name)
    assert code == 0, told


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    (content,) = documents(UNIT_TESTS)
    tested = [one for test in content["tests"] for one in test["alert_rule_test"]]
    names = {rule["alert"] for rule in ALARMS}
    assert {one["alertname"] for one in tested if one["exp_alerts"]} == names
    assert {one["alertname"] for one in tested if not one["exp_alerts"]} == names


@pytest.mark.parametrize("rule", ALARMS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_what_is_so_and_what_that_means(rule):
    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert set(rule["annotations"]) == {"summary", "description"}


def test_no_two_alerts_have_one_name():
    names = [rule["alert"] for rule in ALARMS]
    assert len(names) == len(set(names))


# What they name must be there


def exposed():
    """Return the labels of every sample there is to ask for; a test holds the page to the truth."""
    row = re.compile(r"^\| `(looptrap_\w+)` \| (\w+) \| (.+?) \|", re.MULTILINE)
    found = {}
    for name, kind, labels in row.findall(REFERENCE.read_text("utf-8")):
        named = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            found |= {f"{name}_bucket": named | {"le"}, f"{name}_count": named}
            found[f"{name}_sum"] = named
        else:
            found[name] = named
    return found


EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule.get("alert") or rule["record"]) for rule in rules()),
    *(
        pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
        for panel in PANELS
        for target in panel["targets"]
    ),
]

BY_SCRAPING = {"job", "instance"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_asked_for_exists_and_has_the_labels_asked_for(expression):
    known = exposed()
    metrics = re.findall(r"(?<!:)\b(looptrap_\w+|up)\b(?!:)(?:\{(.*?)\})?", expression)
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert metrics or any(name in expression for name in recorded)
    labels = set()
    for name, selector in metrics:
        assert name == "up" or name in known
        own = known.get(name, set()) | BY_SCRAPING
        labels |= own
        assert set(re.findall(r"(\w+)[!=]?[=~]", selector)) <= own
    for grouped in re.findall(r"by \((.*?)\)", expression):
        assert set(grouped.replace(" ", "").split(",")) <= labels


def test_every_leading_indicator_has_its_alert():
    asked = "".join(rule["expr"] for rule in ALARMS)
    indicated = re.findall(r'looptrap_indicator_firing\{indicator="(\w+)"\}', asked)
    assert sorted(indicated) == ["burn_rate", "latency", "tokens", "tool_calls", "tool_errors"]


# The dashboard


def test_the_dashboard_can_be_taken_in_by_grafana():
    assert DASHBOARD["uid"] == "looptrap"
    assert DASHBOARD["title"]
    assert DASHBOARD["schemaVersion"] >= 36
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    assert "__inputs" not in DASHBOARD, "it is provisioned as it is"
    assert {one["name"] for one in DASHBOARD["templating"]["list"]} == {"datasource", "job"}


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_the_chosen_prometheus(panel):
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert panel["targets"]
    refs = [target["refId"] for target in panel["targets"]]
    assert len(refs) == len(set(refs))
    assert all(target["legendFormat"] for target in panel["targets"])
    assert all('job="$job"' in target["expr"] for target in panel["targets"])


def test_no_two_panels_lie_on_each_other_and_all_fit():
    places = [(panel["title"], panel["gridPos"]) for panel in DASHBOARD["panels"]]
    for title, place in places:
        assert place["x"] >= 0, title
        assert place["w"] > 0, title
        assert place["h"] > 0, title
        assert place["x"] + place["w"] <= 24, title
    for (one, a), (other, b) in combinations(places, 2):
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        below = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or below, f"{one} lies on {other}"


def test_the_rows_are_in_the_order_in_which_people_ask():
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Overview", "Money", "Detection", "Upstream", "Alerts", "Store and gateway"
    ]  # fmt: skip


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_prometheus_can_read_what_a_panel_asks(panel, promtool, tmp_path):
    asked = [filled(target["expr"]) for target in panel["targets"]]
    recorded = [{"record": f"panel:{i}", "expr": expr} for i, expr in enumerate(asked)]
    file = tmp_path / "panel.yml"
    file.write_text(json.dumps({"groups": [{"name": "panel", "rules": recorded}]}))
    code, told = promtool("check", "rules", str(file))
    assert code == 0, told


def filled(expression):
    """Return an expression as Grafana asks it."""
    for variable in ("$__rate_interval", "$__range"):
        expression = expression.replace(variable, "5m")
    return expression.replace("$job", "looptrap")
