"""The HTTP reference names every path of the admin address, and what can be asked there."""

import re
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest

from looptrap.admin import (
    alert,
    audit,
    budget,
    config,
    enforcement,
    incident,
    key,
    provider,
    rule_trial,
    status,
    usage,
)
from looptrap.admin.alert import ChannelList, DeliveryPage
from looptrap.admin.enforcement import KillSwitchCreated
from looptrap.admin.incident_view import IncidentDetail
from looptrap.admin.rule_trial import WhatIfResult
from looptrap.admin.server import OPERATIONS

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()


def section(heading):
    """Return the part of the reference under a heading, or one below it."""
    return re.search(rf"\n### {heading}\n(.*?)(?=\n##)", REFERENCE, re.DOTALL)[1]


def fields_of(shape):
    """Return the names of all that an answer has, at any depth."""
    if is_typeddict(shape):
        hints = get_type_hints(shape)
        return {*hints, *(name for one in hints.values() for name in fields_of(one))}
    return {name for one in get_args(shape) for name in fields_of(one)}


def is_named(name, text):
    return re.search(rf"[`\"]{re.escape(name)}[`\"]", text) is not None


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_path_is_documented(operation):
    assert f"| `gateway.admin` | `{operation.method} {operation.path}` |" in REFERENCE


@pytest.mark.parametrize(
    ("table", "heading"),
    [
        pytest.param(incident.LIST_PARAMETERS, "Incidents", id="incidents"),
        pytest.param(incident.CHANGES_PARAMETERS, "Incidents", id="changes"),
        pytest.param(incident.BULK_FIELDS, "Many incidents at once", id="many incidents"),
        pytest.param(budget.BREACH_PARAMETERS, "Breaches", id="breaches"),
        pytest.param(alert.DELIVERY_PARAMETERS, "Alerts", id="letters"),
        pytest.param(usage.SPENDING_PARAMETERS, "Spending", id="spending"),
        pytest.param(usage.STATS_PARAMETERS, "Statistics", id="stats"),
        pytest.param(enforcement.EXTEND_FIELDS, "Cooldowns", id="cooldowns"),
        pytest.param(rule_trial.WHAT_IF_FIELDS, "What if", id="what if"),
        pytest.param(rule_trial.TRY_FIELDS, "Try it", id="try it"),
        pytest.param(audit.ENTRY_PARAMETERS, "Audit", id="audit"),
        pytest.param(key.ADD_FIELDS, "Keys", id="keys"),
        pytest.param(key.ROTATE_FIELDS, "Keys", id="rotation of keys"),
    ],
)
def test_every_parameter_is_documented(table, heading):
    text = section(heading)
    missing = [
        one.name
        for one in table.fields
        if not is_named(one.name, text) and f"?{one.name}=" not in text
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("shape", "heading"),
    [
        pytest.param(status.GatewayStatus, "Status", id="status"),
        pytest.param(usage.Stats, "Statistics|Spending", id="stats"),
        pytest.param(usage.SpendingReport, "Spending", id="spending"),
        pytest.param(provider.ProviderList, "Providers", id="providers"),
        pytest.param(key.KeyList, "Keys", id="keys"),
        pytest.param(config.EffectiveConfig, "The configuration in effect", id="config"),
        pytest.param(config.PolicyList, "Policies in effect", id="policies"),
        pytest.param(enforcement.CooldownList, "Cooldowns", id="cooldowns"),
        pytest.param(enforcement.ExtendedCooldown, "Cooldowns", id="cooldown"),
        pytest.param(budget.BudgetList, "Budgets", id="budgets"),
        pytest.param(budget.BreachPage, "Breaches", id="breaches"),
        pytest.param(budget.BreachDetail, "Breaches", id="a breach"),
        pytest.param(incident.IncidentPage, "Incidents", id="incidents"),
        pytest.param(incident.BulkChange, "Many incidents at once", id="many incidents"),
        pytest.param(IncidentDetail, "Incidents", id="an incident"),
        pytest.param(audit.AuditPage, "Audit", id="audit"),
        pytest.param(ChannelList, "Alerts", id="channels"),
        pytest.param(DeliveryPage, "Alerts", id="letters"),
        pytest.param(KillSwitchCreated, "Kill switches at run time", id="kill switches"),
        pytest.param(WhatIfResult, "What if", id="what if"),
    ],
)
def test_every_field_of_an_answer_is_documented(shape: Any, heading):
    text = "".join(section(one) for one in heading.split("|"))
    assert [name for name in sorted(fields_of(shape)) if not is_named(name, text)] == []


def test_every_notice_is_documented():
    source = Path(status.__file__).parent
    text = "".join((source / f"{name}.py").read_text() for name in ("status", "worker_proxy"))
    codes = set(re.findall(r'"(?:bad|warn)", (?:"code": )?"(\w+)"', text))
    assert len(codes) > 10
    assert sorted(code for code in codes if not is_named(code, section("Status"))) == []


def test_every_code_of_a_mistake_is_documented():
    source = Path(status.__file__).parent
    told = re.compile(r'(?:error_response|ApiError)\(\s*\d{3},\s*"(\w+)"')
    codes = {code for file in source.glob("*.py") for code in told.findall(file.read_text())}
    assert {"read_only", "cross_site", "not_found"} <= codes
    codes.remove("gone")  # answered when nobody is there to read it
    text = REFERENCE[REFERENCE.index("### Mistakes") :]
    assert sorted(code for code in codes if not is_named(code, text)) == []
