"""The terminals of the grammar, one record each: arguments, shape rule, cost, module. New ones go into these files."""
