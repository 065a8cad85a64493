"""The cell and the machines of edge-sd."""
