"""Whether a model started in another way holds what its own code would have put there.

What the code does is learned from a few builds of its own under different seeds: bits that are equal in all of
them are constants and tables; the others are draws, and their law is that of all builds together. Each function
returns complaints, one a tensor, and the empty list where there is none.
"""

import functools
import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from conftest import peer

torch = peer("torch")

ERRORS = 5.0
"""Standard errors by which a mean or a spread may be off. 30,000 normal z give one beyond 5 in 60 runs."""
PART_ERRORS = 6.0
"""The same for a quarter of a tensor: there are many more of them."""
BETWEEN = 7.0
"""Above this ratio of variances (1 in 10,000 for four builds) the weights of a build are not independent."""
SHAPE = 3.0
"""Kolmogorov and Smirnov's statistic, scaled; 3 is passed once in 30 million."""
SAMPLE = 20_000
STRAY = 50.0
"""Interquartile ranges from the median beyond which a build's own value is an accident, if it is 1 in 1,000:
`trunc_normal_` gives its lower bound, 100 standard deviations off as a rule, once in 2**24 draws (erfinv(-1))."""
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def tensors_of(model):
    """Every parameter, buffer and plain attribute that is a tensor, by name; a tie under each of its names."""
    named = dict(model.named_parameters(remove_duplicate=False)) | dict(
        model.named_buffers(remove_duplicate=False)
    )
    for path, module in model.named_modules(remove_duplicate=False):
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor):
                named[f"{path}.{name} (attribute)"] = value
    return named


def words(tensor):
    """The stored bits, flat, in row-major order of the logical shape."""
    return tensor.detach().contiguous().view(WORDS[tensor.element_size()]).numpy().ravel()


def numbers(tensor):
    """The values in float64, in the tensor's shape."""
    return tensor.detach().to(torch.float64).numpy()


# ---- form --------------------------------------------------------------------------------------------


def form(tensor):
    return type(tensor), tuple(tensor.shape), tensor.dtype, tensor.stride(), tensor.requires_grad, tensor.is_leaf


def differing_forms(own, ours):
    """Names, and each one's type, shape, dtype, strides and requires_grad, in the model's order."""
    if list(own) != list(ours):
        return [f"names: {sorted(set(own) ^ set(ours)) or 'in another order'}"]
    return [f"{n}: {form(own[n])}, not {form(ours[n])}" for n in own if form(own[n]) != form(ours[n])]


def ties(tensors):
    """The sets of names that share memory."""
    shared = defaultdict(set)
    for name, tensor in tensors.items():
        if tensor.numel():
            shared[tensor.untyped_storage().data_ptr()].add(name)
    return {frozenset(names) for names in shared.values() if len(names) > 1}


def differing_ties(own, ours):
    """Tensors that share memory in one model and not in the other."""
    return [f"tied in one model alone: {sorted(names)}" for names in ties(own) ^ ties(ours)]


# ---- what is constant --------------------------------------------------------------------------------


def constant_part(built):
    """Where all builds ([build, element]) agree, and not by chance: on a value that no draw gave elsewhere."""
    equal = (built == built[0]).all(0)
    if equal.any() and not equal.all():
        equal[equal] = ~np.isin(built[0, equal], built[:, ~equal])
    return equal


@dataclass
class Drawn:
    """A tensor that is drawn, at least in part: where not, and its values in builds of its own."""

    constant: np.ndarray
    values: np.ndarray  # [build, *shape], float64
    dtype: torch.dtype

    @functools.cached_property
    def distinct(self):
        """How many values each build draws: one that stands twice was drawn once."""
        return [np.unique(build[~self.constant]).size for build in self.values]

    @property
    def share(self):
        """The share of its elements that are independent draws."""
        return min(self.distinct) / (~self.constant).sum()


def without_strays(values):
    """The values of some builds, with those that are accidents at the median."""
    low, middle, high = np.quantile(values.ravel()[:: -(-values.size // SAMPLE)], (0.25, 0.5, 0.75))
    stray = abs(values - middle) > STRAY * (high - low)
    return np.where(stray, middle, values) if high > low and stray.mean() < 1e-3 else values


def drawn_of(builds):
    """The drawn tensors of builds of a model (dicts of tensors), by name."""
    found = {}
    for name, first in builds[0].items():
        bits = np.stack([words(build[name]) for build in builds])
        if first.dtype.is_complex or (constant := constant_part(bits)).all():
            continue
        values = without_strays(np.stack([numbers(build[name]) for build in builds]))
        found[name] = Drawn(constant.reshape(first.shape), values, first.dtype)
    return found


def differing_constants(own, drawn, ours):
    """Constants and tables, whole or in part, that are not equal to the bit."""
    complaints = []
    for name, tensor in own.items():
        wrong = words(tensor) != words(ours[name])
        if name in drawn:
            wrong &= drawn[name].constant.ravel()
        if wrong.any():
            at = int(wrong.argmax())
            found, wanted = (each.detach().reshape(-1)[at].item() for each in (ours[name], tensor))
            complaints.append(f"{name}: {wrong.sum()} of {wrong.size} constants, at {at} {found} and not {wanted}")
    return complaints


# ---- what is drawn -----------------------------------------------------------------------------------


def critical(freedom, errors):
    """Student's quantile that is as rare as so many standard errors are for a normal (Peizer and Pratt)."""
    freedom = max(freedom, 1.0)
    exponent = errors**2 * (freedom - 5 / 6) / (freedom - 2 / 3 + 0.1 / freedom) ** 2
    return math.sqrt(freedom * math.expm1(min(exponent, 700.0)))


def mean_complaint(own, ours, share, errors):
    """How far the mean is off, in words, or None; `own` is [build, element]."""
    builds, size = len(own), own.shape[1] * share
    variance, between = own.var(ddof=1), own.mean(1).var(ddof=1)
    freedom = builds * size - 1
    if between > BETWEEN * variance / size:
        variance, freedom = between * size, builds - 1
    error = math.sqrt(variance / size * (1 + 1 / builds))
    off = ours.mean() - own.mean()
    if abs(off) > critical(freedom, errors) * error + 1e-12 * abs(own).max():
        return f"mean {ours.mean():.4g} and not {own.mean():.4g}, {off / error:.1f} errors off"
    return None


def spread_freedom(own, share):
    """The degrees of freedom that a build's variance would have if its weights were normal."""
    size, squares = own.shape[1] * share, (own - own.mean()) ** 2
    kurtosis = (squares**2).mean() / squares.mean() ** 2 + 3 * math.sqrt(24 / (len(own) * size))
    freedom = 2 * size / max(kurtosis - 1, 0.5)
    variances = own.var(1)
    between = variances.var(ddof=1) / max(variances.mean() ** 2, 1e-300)
    return 2 / between if between > BETWEEN * 2 / freedom else freedom


def spread_complaint(own, ours, share, errors):
    """How far the standard deviation is off, in words, or None: Wilson and Hilferty's normal for a ratio."""
    expected = own.var()
    freedom = spread_freedom(own, share) if expected else 0
    if freedom < 3:
        return None
    ours_error, own_error = 2 / (9 * freedom), 2 / (9 * freedom * len(own))
    root = (ours.var() / expected) ** (1 / 3)
    off = (root * (1 - own_error) - (1 - ours_error)) / math.sqrt(root**2 * own_error + ours_error)
    if abs(off) > errors:
        return f"sd {ours.std():.4g} and not {own.std():.4g}, {off:.1f} errors off"
    return None


def shape_complaint(own, ours, share):
    """Whether the values are of another law (Kolmogorov and Smirnov), in words, or None."""
    own, ours = (np.sort(each.ravel()[:: -(-each.size // SAMPLE)]) for each in (own, ours))
    both = np.concatenate([own, ours])
    parts = [np.searchsorted(each, both, side="right") / each.size for each in (own, ours)]
    distance, size = abs(parts[0] - parts[1]).max(), ours.size * share
    if size >= 20 and distance * math.sqrt(size * own.size / (size + own.size)) > SHAPE:
        return f"another law: the distribution functions are {distance:.3f} apart"
    return None


def dull_complaint(drawn, ours):
    """Whether nothing was drawn: one value, or zeros where the model has none."""
    own = drawn.values[:, ~drawn.constant]
    if ours.size > 1 and ours.min() == ours.max() and min(drawn.distinct) > 1:
        return f"{ours[0]:.4g} in all drawn places"
    if not ours.any() and own.all():
        return "zeros, where the model draws"
    return None


def repeats_complaint(drawn, ours):
    """Whether values that the model repeats (an expanded row, say) stand alone, or the other way round."""
    counts = set(drawn.distinct)
    if drawn.dtype.itemsize < 4 or len(counts) > 1 or drawn.share > 0.9:
        return None
    found = np.unique(ours).size
    return None if found in counts else f"{found} different values and not {counts.pop()}"


def quarters(drawn, ours):
    """Parts of the rows and of the columns that are wholly drawn, as (own, ours)."""
    for axis in (0, -1):
        for index in np.array_split(np.arange(ours.shape[axis]), 4) if ours.ndim else ():
            if not drawn.constant.take(index, axis).any():
                part = ours.take(index, axis).ravel()
                if part.size >= 256:
                    yield drawn.values.take(index, axis if axis < 0 else axis + 1).reshape(-1, part.size), part


def law_complaint(drawn, tensor):
    """What is wrong with a drawn tensor, in words, or None."""
    ours, share = numbers(tensor), drawn.share
    own, free = drawn.values[:, ~drawn.constant], ours[~drawn.constant]
    if not (np.isfinite(own).all() and np.isfinite(free).all()):
        return None if np.isfinite(own).all() == np.isfinite(free).all() else "values that are not finite"
    found = dull_complaint(drawn, free) or repeats_complaint(drawn, free)
    found = found or mean_complaint(own, free, share, ERRORS) or spread_complaint(own, free, share, ERRORS)
    found = found or shape_complaint(own, free, share)
    for part in quarters(drawn, ours):
        found = found or mean_complaint(*part, share, PART_ERRORS) or spread_complaint(*part, share, PART_ERRORS)
    return found


def differing_laws(drawn, ours):
    """Drawn tensors whose mean, spread or law is not that of the model's own builds."""
    found = ((name, law_complaint(each, ours[name])) for name, each in drawn.items())
    return [f"{name}: {complaint}" for name, complaint in found if complaint]


# ---- what is equal -----------------------------------------------------------------------------------


def copies(tensors, names):
    """The pairs of names whose drawn tensors hold the same numbers, or one the first numbers of the other."""
    groups = defaultdict(list)
    for name in names:
        groups[numbers(tensors[name]).ravel()[:8].tobytes()].append(name)
    return {(group[0], other) for group in groups.values() for other in group[1:]}


def differing_copies(own, drawn, ours):
    """Parameters and buffers that are copies in one model and not in the other; chance copies no 8 floats.

    A plain attribute may be one: a weight by weight norm is its direction, but for a rounding here and there.
    """
    large = [
        name
        for name, each in drawn.items()
        if each.dtype.is_floating_point and not each.constant.any() and each.constant.size >= 8
        if not name.endswith("(attribute)")
    ]
    there, here = copies(own, large), copies(ours, large)
    return [f"equal in one model alone: {pair}" for pair in sorted(there ^ here)]
