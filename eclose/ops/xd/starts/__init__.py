"""From a layer of torch to the operation that starts as it."""
