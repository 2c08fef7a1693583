"""What stands in terminals: tables, progress, lists and the doctor's findings."""
