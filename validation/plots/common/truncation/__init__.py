"""A sample of drafts and the k that each rule chooses, for figures of cu-hlm and ours."""
