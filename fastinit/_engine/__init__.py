"""The engine: these elements of that tensor. Private; see docs/architecture.md for the order of its rooms."""
