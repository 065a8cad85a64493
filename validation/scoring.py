"""What is computed of a study's texts when they are all there."""
def score(pair, prompts, rows):
    return {}
