"""Times of a pass that others measured and fitted, for a server that cannot be timed.

A plane is a + b·(tokens of the pass) + c·(cached tokens). What was measured by whom is in ``by``; nothing here was
measured by this project.
"""

from __future__ import annotations

from dataclasses import dataclass

from validation.acceptance.summary import RoundTimes


@dataclass(frozen=True, slots=True)
class PublishedPasses:
    """A published fit of a target's pass and of its drafts: of which ``models``, and ``by`` whom."""

    models: str
    by: str
    target: tuple[float, float, float]
    """a, b and c of a pass of the target model in seconds, with what the engine adds to each round."""
    drafting_s: float
    """Seconds that drafting adds to a round, whatever its length."""
    draft: tuple[float, float]
    """Seconds of a draft, whatever the batch, and of each cached token of a sequence in a round."""
    largest_batch: int

    def times(self, context: float, round_trip_s: float = 0.0) -> RoundTimes:
        """Return the times of a round over so many cached tokens of a sequence."""
        base, token, cached = self.target
        return RoundTimes(
            round_trip=round_trip_s + self.drafting_s,
            verify=base,
            verify_token=token,
            cache=cached * context,
            draft=self.draft[0],
            draft_cache=self.draft[1] * context,
        )

    def sentences(self) -> list[str]:
        """Return what the times are."""
        a, b, c = self.target
        return [
            f"A pass of the target model: {1e3 * a:.4g} ms + {1e6 * b:.4g} us a token + {1e6 * c:.4g} us a cached "
            f"token; drafting adds {1e3 * self.drafting_s:.4g} ms to a round and {1e6 * self.draft[0]:.3g} us a draft.",
            f"These times are published: {self.models}, {self.by}. How far the passes were off is not published; "
            f"batches above {self.largest_batch} and long contexts are extrapolated.",
        ]


PUBLISHED = {
    "h100-llama-3.1-8b": PublishedPasses(
        models="Llama-3.1-8B (dense) with EAGLE-3 on an H100",
        by="fitted by the authors of SpecDecode-Bench/simulator (liu2025specdecode) to passes that they measured",
        target=(5.88590713e-3 + 1.20683946e-3, 2.10103129e-5, 3.92645679e-8),
        drafting_s=2.13526175e-3 + 8.41429603e-7,
        draft=(8.41429603e-7, 2.37768493e-9),
        largest_batch=128,
    )
}
