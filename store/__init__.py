"""The data side: Postgres, and nobody else knows SQL."""
