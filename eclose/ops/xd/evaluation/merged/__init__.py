"""The merged order: K and M as chains of factors, for one long axis."""
