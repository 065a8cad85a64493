"""Read what engines publish about accepted drafts, as one record for every format."""
