"""Define the model pairs: their shapes, training lengths and learning rates."""

from dataclasses import dataclass
from typing import Any

END_OF_TEXT = "<|endoftext|>"
CONTEXT = 1024
SEED = 20261120
ROLES = {"small": "draft", "large": "target"}  # by folder; the training step has the same name
SIZES = tuple(ROLES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Training settings of a model, independent of its shape."""

    matrix_rate: float  # Muon, hidden matrices
    other_rate: float  # AdamW, embeddings and norms
    epochs: float = 2.0
    batch: int = 4  # sequences of the context's length
    warm_up: float = 0.02  # share of the steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Course):
    """Shape and training length of one model."""

    hidden: int
    feed_forward: int
    layers: int
    heads: int
    context: int = CONTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation(Course):
    """Settings to continue the training of a parent model on other texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distillation(Course):
    """Settings to distil the target model into the parent's draft model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRecipe:
    """A vocabulary and the recipes of two models; without ``target``, the parent gives tokenizer and target model."""

    vocabulary: int
    draft: Recipe | Continuation | Distillation
    target: Recipe | Continuation | None
    texts: str = "plain"  # a key of LIBRARIES in validation/training/texts.py

    @property
    def has_parent(self) -> bool:
        """Return whether the pair starts from a parent pair and uses its tokenizer."""
        return not isinstance(self.target, Recipe)

    @property
    def steps(self) -> tuple[str, ...]:
        if not self.has_parent:
            return "tokenizer", "small", "large", "prompts"
        if self.target is None:
            return "parent", "small"
        return "parent", "large", "small", "prompts", "tasks"


PAIRS = {
    # ships with this repository
    "builtin": PairRecipe(
        vocabulary=4096,
        draft=Recipe(hidden=128, feed_forward=384, layers=5, heads=4, matrix_rate=0.02, other_rate=4e-3, epochs=1.0),
        target=Recipe(hidden=320, feed_forward=864, layers=7, heads=5, matrix_rate=0.02, other_rate=2e-3),
    ),
    # the papers' vocabulary size; for measurements only
    "wide": PairRecipe(
        vocabulary=32_000,
        draft=Recipe(hidden=64, feed_forward=192, layers=6, heads=4, matrix_rate=0.02, other_rate=6e-3, epochs=0.5),
        target=Recipe(hidden=192, feed_forward=512, layers=4, heads=6, matrix_rate=0.02, other_rate=3e-3, epochs=0.5),
    ),
    # the built-in pair, trained further on answers to the papers' prompt sets; for measurements only
    "instructed": PairRecipe(
        vocabulary=4096,
        draft=Continuation(matrix_rate=0.01, other_rate=2e-3, epochs=0.4),
        target=Continuation(matrix_rate=0.01, other_rate=1e-3, epochs=0.4),
        texts="answers",
    ),
    # the two ways in which cu-hlm's Table II improves the draft model
    "distilled": PairRecipe(
        vocabulary=4096, draft=Distillation(matrix_rate=0.01, other_rate=2e-3, epochs=0.285, warm_up=0.03), target=None
    ),
    "larger": PairRecipe(
        vocabulary=4096,
        draft=Recipe(hidden=256, feed_forward=704, layers=4, heads=4, matrix_rate=0.02, other_rate=3e-3, epochs=1.0),
        target=None,
    ),
}


def build_model(recipe: Recipe, vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=recipe.hidden,
            intermediate_size=recipe.feed_forward,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            max_position_embeddings=recipe.context,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
            attention_dropout=0.0,
        )
    )
