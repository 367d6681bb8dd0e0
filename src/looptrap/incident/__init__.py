"""Incidents: what people hear of loops, once, and where they are.

model       Sighting (what was decided about one call), Incident, Event (what people are told)
entry       an incident that is open, and how it grows. Pure
event       what people are told. Pure
mark        what makes sightings part of the same incident. Pure
merge       what several instances saw, as one. Pure
tracker     from sightings to incidents and events. Pure
indicator/  what tends to come before an incident. Pure
history/    what is kept: incidents and the outbox, in SQLite, on a thread of its own
alert/      events on their way to webhooks, Slack and everything else
setting     what can be set of all this
"""
