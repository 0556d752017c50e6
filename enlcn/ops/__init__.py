"""Pure tensor functions: the paper's method section. No parameters, no I/O."""
