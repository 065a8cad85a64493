"""The report, the tables and the published page."""
