"""The public names of the lessons."""

from .advice import recommend as recommend
from .claims import check_claims as check_claims
from .digits import load_digits as load_digits
from .digits import read_digits as read_digits
from .forward_pass import first_pass as first_pass
from .populations import measure_populations as measure_populations
from .report import learner_report as learner_report
from .symmetry import zero_symmetry_probe as zero_symmetry_probe
from .trace import parse_trace as parse_trace
from .trace import render_trace as render_trace
from .training import compare_starts as compare_starts
from .training import train_digits as train_digits
