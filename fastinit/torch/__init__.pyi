"""The public names of fastinit for torch."""

from .building import recorded_plan as recorded_plan
from .functions import calculate_gain as calculate_gain
from .functions import constant_ as constant_
from .functions import dirac_ as dirac_
from .functions import eye_ as eye_
from .functions import kaiming_normal_ as kaiming_normal_
from .functions import kaiming_uniform_ as kaiming_uniform_
from .functions import normal_ as normal_
from .functions import ones_ as ones_
from .functions import orthogonal_ as orthogonal_
from .functions import sparse_ as sparse_
from .functions import trunc_normal_ as trunc_normal_
from .functions import uniform_ as uniform_
from .functions import xavier_normal_ as xavier_normal_
from .functions import xavier_uniform_ as xavier_uniform_
from .functions import zeros_ as zeros_
from .loading import init_module as init_module
from .starting import fast_init as fast_init
from .starting import record as record
from .targets import writing as writing
