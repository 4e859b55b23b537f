"""How work that many wait for shares the loop and the interpreter: slices, short turns, lines that wait."""
