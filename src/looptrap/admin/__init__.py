"""For operators: health, metrics, releases.

api       the admin listener
metrics   what Prometheus scrapes
"""
