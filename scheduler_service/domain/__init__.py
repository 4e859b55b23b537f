"""The words of the product: moments, execution, events, effects, records, errors."""
