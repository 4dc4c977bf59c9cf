"""The command line: one file a command, `main` to run them."""
