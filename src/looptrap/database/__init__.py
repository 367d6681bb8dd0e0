"""The database of the history: incidents and usage, in SQLite or PostgreSQL.

database         Database, Connection: what the history asks of an engine; rows and pages
place            a file or a URL: which engine, and how it is shown without its password
statement        the SQL that both engines know, and what is replaced for each
encoding         text that can be stored
sqlite           SqliteDatabase: one file; sqlite_schema
postgres         PostgresDatabase: for a fleet; postgres_schema, postgres_pool
"""
