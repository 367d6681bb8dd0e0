"""Incidents: loops are gathered from sightings, stored, and alerted once.

model         Sighting, Incident, AlertEvent, Annotation, Strip. Pure
sighting      SightingFactory: sightings and observations from judged calls. Pure
tracker       Tracker: from sightings to incidents and alert events. Pure
event         alert events about loops, budgets and the store. Pure
recorder      IncidentRecorder: queues sightings, writes the history, sends alerts
strip         StripBuilder: the latest rounds of a loop, built on the writer's thread
sharing       IncidentSharing: ids and alerts agreed on by instances with one store
indicator/    leading indicators: what tends to come before an incident. Pure
history/      incidents, deliveries and the audit log, in SQLite
alert/        delivery of events to webhooks, Slack and Apprise
setting       settings of all this
"""
