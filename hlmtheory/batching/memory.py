"""Which batches fit the memory of the draft machine, alone and together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hlmtheory._array import Array
from hlmtheory.serving import Service, peak_memory
from hlmtheory.serving.costs import cached_tokens

RULES = ("together", "each", "ignored")
"""What the memory Γ_s must hold besides the weights.

"together": the caches of all batches of a wave. "each": the cache of each batch alone, edge-sd (24b) with (10) as
printed. "ignored": the memory is not limited.
"""


@dataclass(frozen=True)
class Cache:
    """The size of the caches of batches, and the memory for them, by one of :data:`RULES`."""

    service: Service
    draft_length: int
    rule: str

    @cached_property
    def capacity(self) -> float:
        """Memory for caches: Γ_s less the weights, in bytes."""
        if self.rule == "ignored":
            return np.inf
        return self.service.memory - float(peak_memory(self.service.draft, 0, 0, 0))

    @property
    def shared(self) -> bool:
        """Whether all batches of a wave share the memory."""
        return self.rule == "together"

    def bytes(self, prompt: Array, answer: Array, size: Array) -> Array:
        """Bytes of the caches of batches with these longest prompts, longest answers and sizes."""
        layers, hidden, _ = self.service.draft.sizes
        tokens = prompt + answer if self.rule == "each" else cached_tokens(prompt, answer, self.draft_length)
        return 4.0 * layers * hidden * tokens * size  # (10)

    def of_batch(self, inputs: Array, outputs: Array) -> float:
        """Bytes of one batch of these tasks."""
        return float(self.bytes(inputs.max(), outputs.max(), len(inputs)))

    def binds(self, inputs: Array, outputs: Array) -> bool:
        """Whether some partition into batches needs more than one wave.

        No partition needs more memory than one padded batch of all tasks: Σ_m b_m (I_m + O_m) ≤ K (max I + max O).
        """
        return self.shared and self.of_batch(inputs, outputs) > self.capacity

    def earliest(self, inputs: Array, outputs: Array) -> Array:
        """For each i the smallest j such that a batch j..i fits alone; i + 1 if there is none."""
        prompts, answers = inputs.tolist(), outputs.tolist()
        first, j = np.zeros(len(prompts), dtype=np.int64), 0
        for i in range(len(prompts)):
            while j <= i and self.bytes(max(prompts[j : i + 1]), max(answers[j : i + 1]), i + 1 - j) > self.capacity:
                j += 1
            first[i] = j
        return first

    def fewest_waves(self, inputs: Array, outputs: Array) -> int:
        """A lower bound on the number of waves: a batch's cache is no smaller than the sum of its tasks' own caches."""
        if not self.shared:
            return 1
        return max(1, int(np.ceil(float(self.bytes(inputs, outputs, 1).sum()) / self.capacity * (1.0 - 1e-12))))

    def waves(self, needs: Sequence[float]) -> tuple[int, ...]:
        """Number of batches in each wave, if batches join a wave in order until one does not fit."""
        if not self.shared:
            return (len(needs),)
        counts, used = [0], 0.0
        for need in needs:
            if counts[-1] and used + need > self.capacity:
                counts.append(0)
                used = 0.0
            counts[-1] += 1
            used += need
        return tuple(counts)
