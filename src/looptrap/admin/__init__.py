"""For operators: health, metrics, the dashboard, and the API that it asks.

server            AdminServer: the listener, its operations, slow clients
auth              AdminAuth: who is let in, and who may change something
api               what every operation uses: parameters and bodies in, JSON and errors out
dashboard_files   the dashboard's files
openapi           the API described for machines
metrics           what Prometheus scrapes

status            what runs; health_notice says what is not as it should be
usage             what was done with calls over time, what they came to, and by whom
provider          whether providers answer
config            every value in effect, policies, gateway keys
budget            budgets, and how accounts stand
enforcement       cooldowns, releases, kill switches
incident          incidents and annotations; incident_view is what is shown of them
runtime_override  settings of projects and tools, on top of the file
audit             who changed what
event_stream      what happens, as it does
alert             channels, and deliveries through them
what_if           other settings, tried on captured calls
try_it            what rules say of a conversation; subprocess_job runs both aside

worker_proxy      the admin listener of several workers
worker_merge      what these answer and count, as one
"""
