"""Plans written to files, by one process or by many.

Read `layout`, `regions`, `partial`, `under_way` and `writer` in this order. An engine of your own needs `writing`,
which begins a write and ends it, and `write_region`, which any process may call.
"""

from .regions import Region as Region
from .regions import write_region as write_region
from .under_way import Writing as Writing
from .under_way import writing as writing
from .writer import Written as Written
from .writer import write_checkpoint as write_checkpoint
