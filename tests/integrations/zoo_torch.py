"""Small models in torch alone: its own modules, and initializations as people write them by hand."""

import copy
import functools
import math

from conftest import peer

torch = peer("torch")

from torch import nn  # noqa: E402
from torch.nn import init  # noqa: E402
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm  # noqa: E402


class Holder(nn.Module):
    """A module of named parameters, buffers and submodules."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)


def parameters(**makers):
    """A model of one parameter each maker makes."""
    return lambda: Holder(**{name: nn.Parameter(make()) for name, make in makers.items()})


def buffers(**makers):
    """A model of one buffer each maker makes, beside a layer."""
    return lambda: Holder(linear=nn.Linear(32, 16), **{name: make() for name, make in makers.items()})


def filled(shape, **functions):
    """A model of one parameter of `shape` for each function that fills it in place."""

    def make(function):
        tensor = torch.empty(shape)
        function(tensor)
        return tensor

    return parameters(**{name: functools.partial(make, function) for name, function in functions.items()})


def applied(build, *types):
    """A model whose modules of the types given are started by a function, as `Module.apply` runs it."""

    def decorate(start):
        return lambda: build().apply(lambda module: start(module) if isinstance(module, types) else None)

    return decorate


def changed(build):
    """A model that a function changes once it is built; what it returns, if anything, takes the model's place."""

    def decorate(change):
        def built():
            model = build()
            with torch.no_grad():
                return change(model) or model

        return built

    return decorate


def with_dtype(dtype, build):
    """A model built with another default dtype."""

    def built():
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return build()
        finally:
            torch.set_default_dtype(before)

    return built


def stack(*layers):
    """A chain of layers, each given as (class, *arguments)."""
    return lambda: nn.Sequential(*(layer(*arguments) for layer, *arguments in layers))


def mlp():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 32))


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, groups=4), nn.BatchNorm2d(32)
    )


# ---- a language model as a lecture writes it ---------------------------------------------------------


class Head(nn.Module):
    def __init__(self, width, size, block):
        super().__init__()
        self.key = nn.Linear(width, size, bias=False)
        self.query = nn.Linear(width, size, bias=False)
        self.value = nn.Linear(width, size, bias=False)
        self.register_buffer("tril", torch.tril(torch.ones(block, block)))


class Block(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.heads = nn.ModuleList(Head(width, width // heads, block) for _ in range(heads))
        self.proj = nn.Linear(width, width)
        self.ffwd = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)


class Lecture(nn.Module):
    def __init__(self, vocabulary=65, width=64, heads=4, block=32, layers=2, residual=False, tied=False):
        super().__init__()
        self.token_embedding_table = nn.Embedding(vocabulary, width)
        self.position_embedding_table = nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(Block(width, heads, block) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=not tied)
        if tied:
            self.token_embedding_table.weight = self.lm_head.weight
        self.apply(self._start)
        for name, parameter in self.named_parameters():
            if residual and name.endswith(("proj.weight", "ffwd.2.weight")):
                init.normal_(parameter, 0.0, 0.02 / math.sqrt(2 * layers))

    @staticmethod
    def _start(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            init.normal_(module.weight, 0.0, 0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            init.zeros_(module.bias)


LANGUAGE = {
    "lecture": Lecture,
    "lecture residual": functools.partial(Lecture, residual=True, tied=True),
    "lecture bfloat16": with_dtype(torch.bfloat16, Lecture),
}

# ---- torch's own modules -----------------------------------------------------------------------------

OWN = {
    "lstm": stack((nn.LSTM, 32, 48, 2), (nn.GRU, 32, 48), (nn.RNN, 32, 48)),
    "lstm both ways": lambda: nn.LSTM(32, 48, 2, bidirectional=True, proj_size=16),
    "cells": stack((nn.LSTMCell, 32, 48), (nn.GRUCell, 32, 48), (nn.RNNCell, 32, 48)),
    "attention": lambda: nn.MultiheadAttention(64, 4),
    "attention of widths": lambda: nn.MultiheadAttention(64, 4, kdim=32, vdim=48, add_bias_kv=True),
    "transformer": lambda: nn.Transformer(64, 4, 2, 2, 96),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 96), 3, nn.LayerNorm(64)),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(64, 4, 96), 2),
    "prelu": stack((nn.Linear, 32, 32), (nn.PReLU,), (nn.PReLU, 32)),
    "bilinear": lambda: nn.Bilinear(16, 24, 8),
    "embeddings": stack((nn.Embedding, 96, 32, 3), (nn.EmbeddingBag, 96, 32), (nn.Embedding, 96, 32, -1, 1.0)),
    "norms": stack((nn.BatchNorm1d, 32), (nn.GroupNorm, 4, 32), (nn.LayerNorm, (8, 16)), (nn.RMSNorm, 32)),
    "instance norm": lambda: nn.InstanceNorm2d(16, affine=True, track_running_stats=True),
    "convolutions": convolutions,
    "depthwise": stack((nn.Conv2d, 64, 64, 7, 1, 3, 1, 64), (nn.Conv1d, 48, 96, 4, 1, 0, 1, 48)),
    "transposed": stack((nn.ConvTranspose2d, 16, 32, 4, 2, 0, 0, 4), (nn.ConvTranspose1d, 16, 8, 3)),
    "conv3d": stack((nn.Conv3d, 3, 16, 3), (nn.ConvTranspose3d, 16, 4, 3)),
    "weight norm": lambda: nn.Sequential(weight_norm(nn.Linear(32, 48)), weight_norm(nn.Conv1d(16, 32, 3), dim=1)),
    "weight norm parametrized": lambda: parametrizations.weight_norm(nn.Linear(32, 48)),
    "spectral norm": lambda: nn.Sequential(spectral_norm(nn.Linear(32, 48)), spectral_norm(nn.Conv2d(8, 16, 3))),
    "spectral norm parametrized": lambda: parametrizations.spectral_norm(nn.Linear(32, 48)),
    "orthogonal parametrized": lambda: parametrizations.orthogonal(nn.Linear(32, 32)),
    "pruned": lambda: prune.l1_unstructured(nn.Linear(64, 64), "weight", 0.3),
    "adaptive softmax": lambda: nn.AdaptiveLogSoftmaxWithLoss(32, 96, [16, 48]),
    "double": lambda: mlp().double(),
    "half": lambda: mlp().half(),
    "bfloat16": with_dtype(torch.bfloat16, mlp),
    "bfloat16 after": lambda: mlp().to(torch.bfloat16),
    "bfloat16 lstm": lambda: nn.LSTM(32, 48, dtype=torch.bfloat16),
    "meta to empty": lambda: torch.nn.utils.skip_init(nn.Linear, 32, 32).apply(nn.Linear.reset_parameters),
    "channels last": lambda: convolutions().to(memory_format=torch.channels_last),
    "large": stack((nn.Linear, 700, 900), (nn.Embedding, 3000, 200), (nn.Conv2d, 64, 256, 3)),
}


@changed(lambda: nn.Sequential(nn.LazyLinear(48), nn.ReLU(), nn.LazyConv1d(8, 1), nn.LazyBatchNorm1d()))
def lazy(model):
    model.eval()(torch.zeros(4, 16, 32))


# ---- nn.init, whole ----------------------------------------------------------------------------------

INITS = {
    "xavier": filled((96, 64), uniform=init.xavier_uniform_, normal=init.xavier_normal_),
    "kaiming": filled(
        (32, 16, 3, 3), uniform=init.kaiming_uniform_, normal=init.kaiming_normal_,
        fan_out=lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
    ),
    "orthogonal": filled((48, 64), plain=init.orthogonal_, gain=lambda w: init.orthogonal_(w, math.sqrt(2))),
    "orthogonal convolution": filled((32, 16, 3, 3), plain=init.orthogonal_),
    "sparse": filled((64, 48), some=lambda w: init.sparse_(w, 0.3), most=lambda w: init.sparse_(w, 0.9, 0.02)),
    "eye": filled((48, 32), plain=init.eye_, halved=lambda w: init.eye_(w).mul_(0.5)),
    "dirac": filled((16, 8, 3, 3), plain=init.dirac_, groups=lambda w: init.dirac_(w, 2)),
    "constants": filled((33, 5), one=init.ones_, zero=init.zeros_, some=lambda w: init.constant_(w, 1e-5)),
    "truncated": filled(
        (64, 64), plain=init.trunc_normal_, small=lambda w: init.trunc_normal_(w, std=0.02),
        tight=lambda w: init.trunc_normal_(w, std=0.02, a=-0.02, b=0.04),
        moved=lambda w: init.trunc_normal_(w, 0.3, 0.5, -0.5, 2.0),
        one_sided=lambda w: init.trunc_normal_(w, 0.0, 1.0, 0.5, math.inf),
        tail=lambda w: init.trunc_normal_(w, 0.0, 1.0, 3.0, 5.0),
    ),
    "moved": filled(
        (64, 64), normal=lambda w: init.normal_(w, 0.4, 0.1), uniform=lambda w: init.uniform_(w, 1, 3),
    ),
    "methods": filled(
        (64, 64), normal=lambda w: w.normal_(std=0.02), uniform=lambda w: w.uniform_(-0.1, 0.1),
        scaled=lambda w: w.normal_().mul_(0.05), divided=lambda w: w.uniform_(-1, 1).div_(math.sqrt(64)),
        added=lambda w: w.normal_().mul_(0.01).add_(1.0), twice=lambda w: w.normal_().fill_(2.0),
        negative=lambda w: w.uniform_(0, 1).neg_(), shrunk=lambda w: w.normal_().sub_(1).mul_(2),
    ),
}  # fmt: skip

# ---- parameters made by a function, not filled -------------------------------------------------------

MADE = {
    "functions": parameters(
        randn=lambda: torch.randn(64, 32) * 0.02, rand=lambda: torch.rand(64, 32) * 2 - 1,
        divided=lambda: torch.randn(64, 32) / math.sqrt(64), power=lambda: 64**-0.5 * torch.randn(64, 32),
        zeros=lambda: torch.zeros(1, 5, 32), ones=lambda: torch.ones(32), full=lambda: torch.full((32,), 0.1),
        scaled_ones=lambda: 1e-4 * torch.ones(32), like=lambda: torch.randn_like(torch.empty(48, 8)),
        normal=lambda: torch.normal(0.0, 0.3, (48, 8)), moved=lambda: 1 + 0.1 * torch.randn(48, 8),
    ),
    "scalars": parameters(
        logit_scale=lambda: torch.ones([]) * math.log(1 / 0.07), bias=lambda: torch.tensor(-10.0),
        gate=lambda: torch.zeros(1), drawn=lambda: torch.randn(()), empty=lambda: torch.randn(0, 4),
    ),
    "joined": parameters(
        cat=lambda: torch.cat([torch.randn(16, 32), torch.zeros(8, 32), torch.rand(16, 32)]),
        stacked=lambda: torch.stack([torch.randn(16, 8) * 0.1 for _ in range(3)]),
        cat_ones=lambda: torch.cat([torch.ones(32), torch.zeros(32)]),
    ),
    "tables": parameters(
        decay=lambda: torch.log(torch.arange(1, 17).float()).repeat(32, 1), line=lambda: torch.linspace(0, 1, 33),
        sine=lambda: torch.sin(torch.arange(64.0)[:, None] / 10 ** torch.linspace(0, 4, 32)),
    ),
    "views": parameters(
        turned=lambda: torch.randn(32, 64).t(), contiguous=lambda: torch.randn(32, 64).t().contiguous(),
        reshaped=lambda: torch.randn(2048).view(32, 64), permuted=lambda: torch.randn(4, 8, 16).permute(2, 0, 1),
    ),
    "dtypes": parameters(
        float64=lambda: torch.randn(64, 32, dtype=torch.float64), float16=lambda: torch.randn(64, 32).half(),
        brain=lambda: (torch.randn(64, 32) * 0.02).to(torch.bfloat16),
        brain_table=lambda: torch.ones(32).bfloat16(),
    ),
    "repeated": parameters(
        expanded=lambda: torch.randn(1, 64).expand(4, 64).clone(), repeated=lambda: torch.randn(32).repeat(4),
        copied=lambda: torch.zeros(4, 32).copy_(torch.randn(32)),
    ),
    "computed": parameters(
        log=lambda: torch.log(torch.rand(64, 32) + 0.5), rows=lambda: torch.randn(64, 32).softmax(-1),
        unit=lambda: nn.functional.normalize(torch.randn(64, 32), dim=-1),
        inverse=lambda: torch.log(torch.expm1(torch.rand(64) * 0.1 + 1e-3)),
    ),
    "buffers": buffers(
        mask=lambda: torch.triu(torch.full((16, 16), -math.inf), 1),
        allowed=lambda: torch.ones(16, 16).bool().tril(), position_ids=lambda: torch.arange(32)[None],
        inv_freq=lambda: 1e4 ** (-torch.arange(0, 32, 2) / 32), queue=lambda: torch.randn(32, 64),
        pointer=lambda: torch.zeros(1, dtype=torch.long), order=lambda: torch.randperm(64),
        noise=lambda: torch.rand(64) * 0.1,
    ),
    "stacked norms": lambda: Holder(
        norm=nn.Parameter(torch.ones(4, 64)), shift=nn.Parameter(torch.zeros(4, 64)),
        wi=nn.Parameter(torch.randn(4, 64, 32) * 0.02),
    ),
}  # fmt: skip

# ---- what people do to a model after it is built -----------------------------------------------------


@changed(lambda: nn.LSTM(32, 48, 2))
def forget_gates(model):
    for name, parameter in model.named_parameters():
        if "bias" in name:
            parameter.zero_()
            parameter[48:96].fill_(1.0)
        else:
            for gate in parameter.chunk(4):
                init.orthogonal_(gate) if "hh" in name else init.xavier_uniform_(gate)


@changed(lambda: nn.MultiheadAttention(64, 4))
def query_key_value(model):
    query, key, value = model.in_proj_weight.chunk(3)
    init.normal_(query, std=0.02)
    init.normal_(key, std=0.04)
    init.zeros_(value)
    model.in_proj_bias.data[:64] = 0.5


@changed(lambda: nn.Sequential(nn.Embedding(96, 32), nn.Linear(32, 96)))
def rows_and_columns(model):
    model[0].weight.data.uniform_(-0.1, 0.1)
    model[0].weight.data[0] = 0
    model[0].weight.data[1] = model[0].weight.data[2:].mean(0)
    model[1].weight[:, ::2] = 0.25
    model[1].weight[90:].normal_(0, 1e-3)


@changed(lambda: nn.ModuleList(nn.ModuleDict({"a": mlp(), "b": convolutions()}) for _ in range(2)))
def nested(model):
    model[1].load_state_dict(model[0].state_dict())


@changed(mlp)
def average(model):
    return nn.ModuleDict({"student": model, "teacher": copy.deepcopy(model).requires_grad_(False)})


@changed(lambda: nn.Sequential(nn.Linear(32, 48), nn.Linear(48, 32), nn.Embedding(48, 32)))
def tied(model):
    model[2].weight = model[0].weight
    model[1].weight.data = model[0].weight.data.t()


@changed(convolutions)
def frozen(model):
    model.requires_grad_(False)
    model[3].bias.requires_grad_(True)


@changed(lambda: nn.ModuleList(mlp() for _ in range(3)))
def fixed_by_depth(model):
    for depth, layer in enumerate(model, 1):
        layer[3].weight.data.div_(math.sqrt(2.0 * depth))


@changed(mlp)
def replaced(model):
    model[0].weight = nn.Parameter(model[0].weight.detach().clone() * 0.5)
    model[3].weight.data = torch.randn(32, 64) * 0.01
    model[0].bias = None


@changed(mlp)
def read_in_the_middle(model):
    model[3].weight.mul_(2.0 / model[3].weight.norm())


@changed(lambda: nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 64)))
def masked(model):
    model[0].weight.tril_()
    model[1].weight.mul_(torch.ones(64, 64).triu())
    model[2].weight.masked_fill_(torch.eye(64, dtype=torch.bool), 1.0)


@applied(convolutions, nn.Conv2d, nn.BatchNorm2d)
def generative(module):
    if isinstance(module, nn.Conv2d):
        module.weight.data.normal_(0.0, 0.02)
    else:
        module.weight.data.normal_(1.0, 0.02)
        module.bias.data.fill_(0)


@applied(convolutions, nn.Conv2d)
def by_fan_out(module):
    n = module.kernel_size[0] * module.kernel_size[1] * module.out_channels
    module.weight.data.normal_(0, math.sqrt(2.0 / n))
    module.bias.data.zero_()


AFTER = {
    "lazy": lazy, "forget gates": forget_gates, "query, key, value": query_key_value, "rows": rows_and_columns,
    "nested": nested, "average": average, "tied": tied, "frozen": frozen, "fixed by depth": fixed_by_depth,
    "replaced": replaced, "read in the middle": read_in_the_middle, "masked": masked, "GAN": generative,
    "by fan out": by_fan_out,
}  # fmt: skip

MODELS = {**LANGUAGE, **OWN, **INITS, **MADE, **AFTER}
