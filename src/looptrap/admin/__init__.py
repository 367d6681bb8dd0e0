"""For operators: health, metrics, releases, and what is set at run time.

api       the admin listener
kill      kill switches
project   settings of projects
incident  incidents
release   calls that are refused, let pass
alert     channels, and letters on their way through them
history   how these ask the history
answer    JSON in and out
metrics   what Prometheus scrapes
front     the admin listener of several workers
total     what these count, as one
"""
