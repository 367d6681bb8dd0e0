"""Incidents: what people hear of loops, once, and where they are kept.

model         Sighting, Incident, AlertEvent, Annotation, Strip. Pure
sighting      SightingFactory: from a judged call to sightings and observations. Pure
tracker       Tracker: from sightings to incidents and alert events. Pure
event         the alert events about loops and the store. Pure
budget_alert  the alert events about budgets. Pure
recorder      IncidentRecorder: takes sightings, keeps the history, has people alerted
strip         StripBuilder: the latest rounds of what loops, drawn beside the event loop
sharing       IncidentSharing: what instances with one store tell each other
indicator/    what tends to come before an incident. Pure
history/      incidents, deliveries and the audit log, in SQLite
alert/        events on their way to webhooks, Slack and everything else
setting       what can be set of all this
"""
