"""Train model pairs: recipes, texts, the training loop, distillation and model cards."""
