"""Who trains the trials of a search: this process, or workers of Ray."""
