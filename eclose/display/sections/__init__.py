"""What the page tells, section by section: sentences, tables, curves."""
