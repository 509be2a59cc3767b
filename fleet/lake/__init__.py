"""The lake: schema, collection from hosts, ingestion into tables, SQL."""
