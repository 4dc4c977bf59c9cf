"""The public names of fastinit for JAX."""

from .bound import Bound as Bound
from .initializers import constant as constant
from .initializers import delta_orthogonal as delta_orthogonal
from .initializers import glorot_normal as glorot_normal
from .initializers import glorot_uniform as glorot_uniform
from .initializers import he_normal as he_normal
from .initializers import he_uniform as he_uniform
from .initializers import initializer as initializer
from .initializers import kaiming_normal as kaiming_normal
from .initializers import kaiming_uniform as kaiming_uniform
from .initializers import lecun_normal as lecun_normal
from .initializers import lecun_uniform as lecun_uniform
from .initializers import normal as normal
from .initializers import ones as ones
from .initializers import orthogonal as orthogonal
from .initializers import truncated_normal as truncated_normal
from .initializers import uniform as uniform
from .initializers import variance_scaling as variance_scaling
from .initializers import xavier_normal as xavier_normal
from .initializers import xavier_uniform as xavier_uniform
from .initializers import zeros as zeros
from .trees import init_tree as init_tree
from .trees import named_leaves as named_leaves
