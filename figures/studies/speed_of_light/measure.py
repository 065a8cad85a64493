"""How many of P drafts a target can accept, by its own surprisal, beside what a pair's chain of P drafts gets."""

import numpy as np

from figures.studies.kit import given, laws, mean_interval, store
from validation.trace.reader import open_trace

DRAFTS, MOST = (2, 4, 8), 8


def main() -> None:
    """Measure along the texts of traces at temperature 1, and store means with intervals over prompts."""
    asked, found = given(__doc__, "out", "traces*"), {}
    for path in asked.traces:
        trace, parts = open_trace(path), []
        tokens, prompt, place = (np.asarray(trace.arrays[name]) for name in ("tokens", "prompt_index", "position"))
        for some, q, p in laws(trace):
            mine = np.arange(len(some)), tokens[some]
            log = np.log(np.maximum(p, 1e-300))
            parts.append(np.stack([-log[mine], np.minimum(q[mine] / p[mine], 1.0), -np.sum(p * log, axis=-1)]))
        surprisal, kept, entropy = np.concatenate(parts, axis=1)
        whole = np.flatnonzero(place[MOST:] == place[:-MOST] + MOST)  # places with that many rows behind them
        ahead = whole[:, None] + np.arange(MOST)
        rows = {"entropy_nats": mean_interval(entropy, prompt)}
        for count in DRAFTS:
            chain = np.cumprod(kept[ahead[:, :count]], axis=1).sum(axis=1)
            likely = np.cumsum(surprisal[ahead[:, :count]], axis=1) <= np.log(count)
            rows |= {f"accepted, P = {count}": mean_interval(chain, prompt[whole])}
            rows |= {f"most, P = {count}": mean_interval(1.0 + likely.sum(axis=1), prompt[whole])}
        found[trace.manifest["pair"]["name"]] = {"places": len(whole), **rows}
    store(asked.out, found)


if __name__ == "__main__":
    main()
