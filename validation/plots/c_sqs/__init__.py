"""The figures and tables of c-sqs, with our numbers."""
