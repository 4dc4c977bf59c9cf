"""The public names of the diagnosis."""

from .judge import diagnose as diagnose
