"""Planning: which policy for these models, this link and these limits, predicted from a trace or from engine counts."""
