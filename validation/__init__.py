"""Real models, traces, verdicts, figures and the report: everything that knows a model, a file or a plot."""
