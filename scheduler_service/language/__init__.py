"""Templates and JSONPath: parsed once, rendered as data. Pure."""
