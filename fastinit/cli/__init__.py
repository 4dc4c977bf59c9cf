"""The command line. `main` parses and answers with the exit status; every command has a file of its own name.

Such a file holds ``add_arguments(parser)`` beside ``run(options)``, which returns the exit status. It imports the
rest of fastinit inside `run`, so that ``--help`` loads neither numpy nor the kernels' modules.
"""
