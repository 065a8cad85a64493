"""Measure a sample of drafts and the k of each rule, for figures of cu-hlm and ours."""
