"""The admin API described for machines: OpenAPI 3.1, from what reads and answers questions.

schema    Operation, and what a setting may be as JSON Schema
document  all operations together, and where the document is served
"""

from looptrap.admin.openapi.document import OpenApiDocumentApi, document, takes_parameters

__all__ = ["OpenApiDocumentApi", "document", "takes_parameters"]
