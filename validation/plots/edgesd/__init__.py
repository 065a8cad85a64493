"""edge-sd: its figures."""
