"""Files: how they are written and locked, and what is stored of the machine."""
