"""Incidents of a running gateway: seen on the loop, gathered on a thread, told from the loop.

desk       Desk: takes sightings, keeps the history, has people told
ledger     what every call came to, on its way to the history
budget     has people told of budgets that come to an end
outage     has people told that the shared store is away
strip      the latest rounds of what loops, drawn beside the loop
told       what a refused client was told
sighting   what of a judged call an incident is made of
numbers    what there is to scrape
sharing    what instances with one store tell each other of incidents
"""

from looptrap.gateway.incident.desk import Desk

__all__ = ["Desk"]
