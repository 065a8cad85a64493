"""Read counts of accepted drafts that engines publish, into one record type for all formats."""
