"""Fast paths. Nothing here is public, and no result depends on it."""
