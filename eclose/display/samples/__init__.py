"""A few samples on the page, with what every network makes of them."""
