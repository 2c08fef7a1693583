"""A task from the user's own data: arrays, files, tables and data sets, and how they are read."""
