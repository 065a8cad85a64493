"""c-sqs: its figures and tables, and ours beside them."""
