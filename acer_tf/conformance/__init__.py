"""The conformance kit: vectors of the papers' formulas and of replay, and a checker for any framework's functions."""
