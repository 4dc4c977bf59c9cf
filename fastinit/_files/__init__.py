"""Files: what a model consists of, read and written. Private."""
