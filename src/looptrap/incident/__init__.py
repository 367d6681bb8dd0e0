"""Incidents: what people hear of loops, once, and where they are.

model       Sighting (what was decided about one call), Incident, Event (what people are told)
sighting    from a judged call to sightings. Pure
strip       the latest rounds of an incident, as they are kept. Pure
remark      what people say about an incident. Pure
entry       an incident that is open, and how it grows. Pure
event       what people are told. Pure
budget      what people are told of budgets. Pure
saving      what a loop costs a call, and what refusals saved. Pure
spent       what calls came to: by the minute and caller, by session. Pure
spending    calls, added up as they are settled. Pure
mark        what makes sightings part of the same incident. Pure
merge       what several instances saw, as one. Pure
tracker     from sightings to incidents and events. Pure
indicator/  what tends to come before an incident. Pure
history/    what is kept: incidents, alerts and spending, in SQLite, on a thread of its own
alert/      events on their way to webhooks, Slack and everything else
setting     what can be set of all this
"""
