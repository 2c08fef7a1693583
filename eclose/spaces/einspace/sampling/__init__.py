"""Networks drawn from the grammar: probabilities and limits, the derivation itself, learning from good networks."""
