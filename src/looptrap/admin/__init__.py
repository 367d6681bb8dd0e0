"""For operators: health, metrics, the dashboard, and the API that it uses.

server            AdminServer: the listener, its time limits, the dashboard's files, all operations
auth              AdminAuth: which Operator sends a request, by token or by the header of a proxy
operation         Operation: declared beside its handler; route and OpenAPI document follow
api               requests and responses: parameters, JSON, errors, times, the history
metrics           what Prometheus scrapes, and its sums over workers
worker_proxy      the admin listener of several workers: merges their answers

status            what runs, and notices about what is wrong
usage             calls and costs over time, and by caller
call              the log of calls
provider          failures, latency and circuits of providers
config            values in effect, policies; projects, tools and rules set at run time
key               gateway keys: made, rotated, revoked
budget            budgets, their accounts and breaches, and limits set at run time
enforcement       cooldowns, releases, kill switches
incident          incidents and annotations; incident_view makes the JSON
audit             who changed what
event_stream      events as they happen
alert             channels and deliveries
rule_trial        rules, tried on captured calls and on a pasted conversation
demo              a loop that is played into the dashboard
"""
