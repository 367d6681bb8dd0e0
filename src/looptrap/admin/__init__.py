"""For operators: health, metrics, the dashboard, and the API that it asks.

api       the admin listener: all that answers there
door      who is let in, and who may change something
patience  slow clients
page      the dashboard's files
answer    JSON in and out
history   how questions are read, and the history is asked
openapi   the API described for machines

status    what runs; notice says what is not as it should be
stats     what was done with calls over time
spending  what they came to, and by whom
provider  whether providers answer
key       gateway keys
config    every value in effect
policy    the rules in effect
budget    budgets, and how accounts stand
cooldown  what is refused right now
incident  incidents; incident_view is what is told of them, suggestion what to do about false alarms
remark    what people say of them
release   calls that are refused, let pass
kill      kill switches
project   settings of projects
tool      settings of tools; both are layers on top of the file
audit     who changed what
event     what happens, as it does: feed looks for it, tide at what calls come to
alert     channels, and letters on their way through them
what_if   other settings, tried on captured calls
try_it    what rules say of a conversation

metrics   what Prometheus scrapes
front     the admin listener of several workers
together  what these answer, as one
total     what these count, as one
"""
