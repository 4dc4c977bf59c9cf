"""The public names of signals through depth."""

from .experiments import compare_initializers as compare_initializers
from .experiments import propagate as propagate
from .experiments import residual_stack as residual_stack
from .experiments import unequal_fans as unequal_fans
from .fixed_point import computed_gain as computed_gain
from .lesson_networks import lesson as lesson
from .lesson_networks import lesson_run as lesson_run
