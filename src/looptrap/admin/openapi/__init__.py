"""The admin API described for machines: OpenAPI 3.1, from what reads and answers questions.

kind        what a setting may be, as JSON Schema
operation   one question: what it takes, what it answers
questions   those that change nothing
changes     those that do
shape       answers whose types are not beside what makes them
document    all of it together, and where it is served
"""

from looptrap.admin.openapi.document import OpenApi, document, takes_parameters

__all__ = ["OpenApi", "document", "takes_parameters"]
