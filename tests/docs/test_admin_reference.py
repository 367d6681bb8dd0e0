"""The HTTP reference names every path of the admin address, and what can be asked there."""

import re
from pathlib import Path

import pytest

from looptrap.admin.alert import LETTERS, AlertApi
from looptrap.admin.incident import CHANGED, LISTED, IncidentApi, _shown
from looptrap.admin.kill import KillSwitchApi
from looptrap.admin.project import ProjectApi
from looptrap.admin.release import ReleaseApi
from looptrap.admin.spending import ASKED, SpendingApi, _figures, _session
from looptrap.incident.history.spending import SessionShare
from looptrap.incident.model import Incident
from looptrap.incident.spent import Run, Session, Spent

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()

APIS = [AlertApi, IncidentApi, KillSwitchApi, ProjectApi, ReleaseApi, SpendingApi]


def section(heading):
    """Return the part of the reference under a heading, or one below it."""
    return re.search(rf"\n### {heading}\n(.*?)(?=\n##)", REFERENCE, re.DOTALL)[1]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.__name__)
def test_every_path_is_documented(api):
    routes = api(None).routes()
    assert routes
    for route in routes:
        assert f"| `gateway.admin` | `{route.method} {route.path}` |" in REFERENCE


@pytest.mark.parametrize(
    ("table", "heading"),
    [(LISTED, "Incidents"), (CHANGED, "Incidents"), (LETTERS, "Alerts"), (ASKED, "Spending")],
    ids=["incidents", "changes", "letters", "spending"],
)
def test_every_parameter_is_documented(table, heading):
    text = section(heading)
    missing = [
        one.name for one in table.fields if not re.search(rf"`{one.name}`|\?{one.name}=", text)
    ]
    assert missing == []


def test_every_field_of_an_incident_is_documented():
    text = section("Incidents")
    fields = _shown(Incident(id="a", instance="b", key="c", opened=0.0, last=0.0))
    assert [name for name in fields if f"`{name}`" not in text] == []


def test_every_field_of_spending_is_documented():
    text = section("Spending")
    session = SessionShare(Session("a", "b", "c"), Run(0.0, 0.0))
    fields = [*_figures(Spent()), *_session(session, 0.0)]
    assert [name for name in fields if f"`{name}`" not in text] == []
