"""Templates and JSONPath: compiled once, rendered as data. Pure."""
