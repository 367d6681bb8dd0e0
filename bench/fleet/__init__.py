"""Several gateways behind a load balancer, each with a network address of its own, under faults.

network    network namespaces on one bridge, and cables to cut
stage      provider, store, gateways and HAProxy, as processes in them
agents     honest calls, loops, budgets and counted calls
phase      what is done to the fleet, and what came of the calls meanwhile
"""
