"""What was found, as people see it: sections as HTML and as text, drawings of networks."""
