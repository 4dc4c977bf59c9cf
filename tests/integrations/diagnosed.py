"""Fresh models whose files a diagnosis must not accuse: the zoo's, and some with what the zoo has little of."""

import copy

from conftest import peer

torch = peer("torch")

from integrations import zoo  # noqa: E402
from torch import nn  # noqa: E402

WIDTH = 64


class Block(nn.Module):
    """What adapters are put on."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 32)
        self.conv, self.norm = nn.Conv2d(8, 16, 3), nn.LayerNorm(WIDTH)


LINEARS = {"target_modules": ["q_proj", "v_proj"]}
ADAPTERS = {
    "LoRA": ("LoraConfig", LINEARS),
    "DoRA": ("LoraConfig", {**LINEARS, "use_dora": True}),
    "LoRA on convolutions": ("LoraConfig", {"target_modules": ["conv", "q_proj"]}),
    "AdaLoRA": ("AdaLoraConfig", {**LINEARS, "total_step": 100}),
    "LoHa": ("LoHaConfig", LINEARS),
    "LoKr": ("LoKrConfig", LINEARS),
    "IA3": ("IA3Config", {**LINEARS, "feedforward_modules": []}),
    "VeRA": ("VeraConfig", LINEARS),
    "OFT": ("OFTConfig", LINEARS),
    "BOFT": ("BOFTConfig", LINEARS),
    "HRA": ("HRAConfig", LINEARS),
    "FourierFT": ("FourierFTConfig", LINEARS),
    "norms": ("LNTuningConfig", {"target_modules": ["norm"]}),
}


def adapter(name):
    """The state of an adapter alone, as it is saved."""

    def build():
        peft = peer("peft")
        kind, options = ADAPTERS[name]
        model = nn.Module()
        model.blocks = nn.ModuleList(Block() for _ in range(2))
        adapted = peft.get_peft_model(model, getattr(peft, kind)(**copy.deepcopy(options)))
        return peft.get_peft_model_state_dict(adapted)

    return build


class Masked(nn.Module):
    """A lecture's GPT: a triangle in every head, a table of sines, the angles of a rotation."""

    def __init__(self):
        super().__init__()
        angle = torch.arange(40.0)[:, None] / 10_000 ** (torch.arange(0, WIDTH, 2) / WIDTH)
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).flatten(1))
        self.register_buffer("turns", torch.cat([angle.cos()] * 2, -1))
        self.token_embedding_table = nn.Embedding(96, WIDTH)
        self.heads = nn.ModuleList(nn.Linear(WIDTH, 16, bias=False) for _ in range(8))
        for head in self.heads:
            head.register_buffer("tril", torch.tril(torch.ones(40, 40)))
            head.register_buffer("attn_mask", torch.full((40, 40), -torch.inf).triu(1))
            head.register_buffer("window", torch.ones(40, 40).tril().triu(-8))


class Gains(nn.Module):
    """Gains with more axes than one: of a norm over images, a layer scale, a weight norm, an activation."""

    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 32, 3), nn.Linear(32, 10)
        self.gain = nn.Parameter(torch.ones(32, 1, 1, 1))
        self.layer_scale = nn.Parameter(torch.full((32, 1, 1), 1e-5))
        self.norm, self.prelu = nn.LayerNorm([8, 16]), nn.PReLU(32)
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(32, 16))
        self.relative_position_bias_table = nn.Parameter(torch.zeros(49, 4))
        self.cls_token, self.mask_token = nn.Parameter(torch.zeros(1, 1, 32)), nn.Parameter(torch.zeros(1, 32))


class ZeroHeads(nn.Module):
    """An actor and its critic, whose heads start at zero, as does the last convolution of a residual branch."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(64, 32))
        self.policy_head, self.value_head = nn.Linear(32, 10), nn.Linear(32, 1)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"conv1": nn.Conv2d(16, 16, 3), "conv2": nn.Conv2d(16, 16, 3)}) for _ in range(2)
        )
        for layer in (self.policy_head, self.value_head, *(block["conv2"] for block in self.blocks)):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)


MODELS = {
    **{name: build for name, build in zoo.MODELS.items() if not name.startswith("by hand/")},  # those have faults
    **{f"adapters/{name}": adapter(name) for name in ADAPTERS},
    "own/masked": Masked,
    "own/gains": Gains,
    "own/zero heads": ZeroHeads,
}


def state_of(model):
    """Return the tensors that a file of the model holds: no tensor twice, each contiguous."""
    state, seen, found = model if isinstance(model, dict) else model.state_dict(), set(), {}
    for name, tensor in state.items():
        place = (tensor.data_ptr(), tensor.shape, tensor.stride())
        if not tensor.numel() or place not in seen:
            found[name] = tensor.detach().contiguous().clone()
        seen.add(place)
    return found
