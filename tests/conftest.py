"""Shared by all tests. `reference.py` beside this file is the independent judge of numbers."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
