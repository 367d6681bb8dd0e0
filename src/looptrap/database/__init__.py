"""The database of the history: incidents and usage, in SQLite or PostgreSQL.

database         Database, Connection: what the history asks of an engine; the SQL that both know
place            a file or a URL: which engine, and how it is shown without its password
sqlite           SqliteDatabase: one file; sqlite_schema
postgres         PostgresDatabase: for a fleet; postgres_schema, postgres_pool
"""
