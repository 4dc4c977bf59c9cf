"""The public names of signals through depth."""

from .stack import lesson as lesson
from .stack import propagate as propagate
from .stack import residual_stack as residual_stack
from .stack import six_schemes as six_schemes
