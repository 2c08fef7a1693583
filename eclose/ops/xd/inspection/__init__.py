"""What an operation has become: the map it is, how far it has moved, what it is nearest to."""
