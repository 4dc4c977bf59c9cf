"""Small models of real libraries, each as its own code starts it: what a diagnosis must not accuse.

Configurations (small_models.json) are small in width and depth alone: every kind of tensor that the real model has
is here.
"""

from __future__ import annotations

import copy
import importlib
import json
from pathlib import Path

import torch
from torch import nn

WIDTH = 64
OPTIONS = json.loads((Path(__file__).parent / "small_models.json").read_text())
"""library -> model -> the options that make it small."""


def _transformers(library, name, options):
    config = getattr(library, options.pop("config"))
    if options.get("backbone_config") == "resnet":
        options["backbone_config"] = library.ResNetConfig(
            embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"]
        )
    return getattr(library, name)(config(**options))


def _timm(library, name, options):
    return library.create_model(name, pretrained=False, num_classes=10, **_tuples(options))


def _diffusers(library, name, options):
    return getattr(library, name)(**_tuples(options))


def _tuples(options):
    return {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}


class _Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 32)
        self.conv, self.norm = nn.Conv2d(8, 16, 3), nn.LayerNorm(WIDTH)


class _Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(_Block() for _ in range(2))


def _peft(library, name, options):
    """Return the state of an adapter: alone, as it is saved, or with the model around it."""
    model = library.get_peft_model(_Adapted(), getattr(library, name.split(",")[0])(**options))
    return model if "in its model" in name else library.get_peft_model_state_dict(model)


class _Masked(nn.Module):
    """A lecture's GPT: a triangle in every head, a table of sines, the angles of a rotation."""

    def __init__(self):
        super().__init__()
        angle = torch.arange(40.0)[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.register_buffer("cos_cached", torch.cat([angle.cos()] * 2, -1))
        self.token_embedding_table = nn.Embedding(96, WIDTH)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 16, bias=False) for _ in range(8))
        for head in self.heads:
            head.register_buffer("tril", torch.tril(torch.ones(40, 40)))
            head.register_buffer("attn_mask", torch.full((40, 40), -torch.inf).triu(1))
            head.register_buffer("window", torch.ones(40, 40).tril().triu(-8))


class _Gains(nn.Module):
    """Gains with more axes than one: of a norm over images, a layer scale, a weight norm, an activation."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 32, 3), nn.Linear(32, 10)
        self.gain, self.layer_scale = (
            nn.Parameter(torch.ones(32, 1, 1, 1)),
            nn.Parameter(torch.full((32, 1, 1), 1e-5)),
        )
        self.norm, self.prelu = nn.LayerNorm([8, 16]), nn.PReLU(32)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(32, 16))
        self.spectral = nn.utils.parametrizations.spectral_norm(nn.Linear(32, 16))
        self.relative_position_bias_table = nn.Parameter(torch.zeros(49, 4))
        self.cls_token, self.mask_token = nn.Parameter(torch.zeros(1, 1, 32)), nn.Parameter(torch.zeros(1, 32))
        self.bilinear = nn.Bilinear(8, 8, 4)


class _ZeroHeads(nn.Module):
    """An actor and its critic, whose heads start at zero, as does the last convolution of a residual branch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(64, 32))
        self.policy_head, self.value_head = nn.Linear(32, 10), nn.Linear(32, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"conv_in": nn.Conv2d(16, 16, 3), "conv_out": nn.Conv2d(16, 16, 3)}) for _ in range(2)
        )
        for layer in (self.policy_head, self.value_head, *(block["conv_out"] for block in self.blocks)):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)


TORCH = {
    "LSTM": lambda: nn.LSTM(16, 32, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(16, 32, 2),
    "RNN": lambda: nn.RNN(16, 32, 2),
    "LSTM with projections": lambda: nn.LSTM(16, 32, proj_size=8),
    "LSTMCell": lambda: nn.LSTMCell(16, 32),
    "Transformer": lambda: nn.Transformer(32, 4, 2, 2, 64),
    "MultiheadAttention": lambda: nn.MultiheadAttention(32, 4, kdim=16, vdim=16, add_bias_kv=True),
    "masked": _Masked,
    "gains": _Gains,
    "zero heads": _ZeroHeads,
}
_BUILD = {"transformers": _transformers, "timm": _timm, "diffusers": _diffusers, "peft": _peft}
NAMES = [
    *(f"torch: {name}" for name in TORCH),
    *(f"{library}: {name}" for library, models in OPTIONS.items() for name in models),
]


def built(name, libraries):
    """Return a model, or the state of an adapter, by "library: name"; `libraries` imports one by its name."""
    library, _, model = name.partition(": ")
    if library == "torch":
        return TORCH[model]()
    return _BUILD[library](libraries(library), model, copy.deepcopy(OPTIONS[library][model]))


def state_of(model):
    """Return the tensors that a file of the model holds: no tensor twice, each contiguous."""
    state, seen = model if isinstance(model, dict) else model.state_dict(), set()
    found = {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if not isinstance(tensor, torch.Tensor) or (tensor.numel() and place in seen):
            continue
        seen.add(place)
        found[name] = tensor.detach().contiguous().clone()
    return found


def complete_torchvision():
    """Name the operators of torchvision's library: one built for CUDA does not load beside a torch for CPUs."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


_KEPT: list[object] = []  # what is defined goes with its library
