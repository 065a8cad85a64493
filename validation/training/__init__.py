"""How pairs are made: recipes, texts, the training loop, distillation, model cards."""
