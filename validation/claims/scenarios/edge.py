"""The models, machines and workload of edge-sd.

Tables I and II of edge-sd (zhu2025edgesd): prompts of 1..512 tokens, answers of 1..2,048, drafts of 1..10 tokens.
"""

from hlmtheory.serving import Device, ModelShape, Service

LLAMA_68M = ModelShape(2, 768, 3072)
LLAMA_1B = ModelShape(22, 2048, 5632)
LLAMA_7B = ModelShape(32, 4096, 11008)
LLAMA_13B = ModelShape(40, 5120, 13824)
PAIRS = ((LLAMA_68M, LLAMA_7B), (LLAMA_1B, LLAMA_7B), (LLAMA_1B, LLAMA_13B))
"""Table I: (draft, target) models."""

EDGE = Device(4.11e-13, 0.56e-3)
CLOUD = Device(2.08e-14, 1.28e-2)
MEMORY = 16e9
LONGEST_INPUT, LONGEST_OUTPUT, MAX_DRAFT_LENGTH = 512, 2048, 10
"""Table II."""


def service(pair: int = 1, acceptance: float = 0.8, memory: float = MEMORY) -> Service:
    return Service(*PAIRS[pair], EDGE, CLOUD, acceptance, memory)
