"""The networks that are compared, by name, and the presets of their settings."""
