"""Training: recipes, the step, the loop, and what keeps a run from being lost."""
