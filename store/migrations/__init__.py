"""The history of the schema, append-only, one head. `store.database.migrate` runs it; there is no ini file."""
