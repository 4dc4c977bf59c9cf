"""Code that reads a weight in the middle, aliases it or writes it in its own way: each a change of one MLP."""

import copy
import io

from conftest import peer

torch = peer("torch")

from integrations.zoo_torch import changed, mlp  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import init  # noqa: E402
from torch.nn.utils import prune  # noqa: E402


def assigned(model):
    twin = mlp()
    twin.load_state_dict(model.state_dict(), assign=True)
    return twin


def by_index(model):
    weight = model[0].weight
    weight[torch.tensor([1, 5])] = 0.0
    weight.index_fill_(1, torch.tensor([2]), 0.5)
    weight[7].copy_(weight[8])
    model[3].weight[model[3].weight < 0] = 0.0


def out_arguments(model):
    torch.mul(model[0].weight, 2.0, out=model[0].weight)
    torch.randn(64, 32, out=model[3].weight.t().contiguous())
    model[0].bias += 1
    model[3].bias.data = model[3].bias.data * 3


def own_generator(model):
    generator = torch.Generator().manual_seed(7)
    model[0].weight.normal_(generator=generator)
    init.uniform_(model[3].weight, generator=generator)


def flattened(model):
    vector = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(vector * 0.5, model.parameters())


def clamped(model):
    model[0].weight.normal_().clamp_(-1, 1)
    model[3].weight.copy_(torch.randn(32, 64).clamp(min=0))


def strided(model):
    model[0].weight.as_strided((32,), (33,)).fill_(1.0)
    model[3].weight.view(-1)[::3].zero_()
    model[3].weight.t()[5].fill_(2.0)


def swapped(model):
    model[0].weight.data, model[3].weight.data = model[3].weight.data.t(), model[0].weight.data.t()


def drawn_again(model):
    model[0].reset_parameters()
    model[0].weight[:10].normal_(5.0, 0.1)
    model[0].weight.mul_(2)
    model[3].weight.zero_()
    model[3].weight.normal_()


def forward_before(model):
    model(torch.randn(4, 32))
    model[0].weight.mul_(2)


def scaled_by_itself(model):
    model[0].weight.div_(model[0].weight.std())
    if model[3].weight.abs().max() > 0:
        model[3].weight.mul_(2)


def storage(model):
    flat = torch.empty(2112).normal_(std=0.1)
    model[0].weight.data, model[0].bias.data = flat[:2048].view(64, 32), flat[2048:]


def converted_twice(model):
    model.half().float()
    model[0].weight.data = model[0].weight.data.double()


def rerun(model):
    return nn.Sequential(copy.deepcopy(copy.deepcopy(model)))


def bernoulli(model):
    model[0].weight.bernoulli_(0.3)
    model[3].weight.exponential_()
    model[0].bias.cauchy_().clamp_(-5, 5)


def pruned_by_random(model):
    prune.random_unstructured(model[0], "weight", 0.5)
    prune.remove(model[0], "weight")


def dropped(model):
    model[0].weight.copy_(nn.functional.dropout(model[0].weight, 0.5, True))
    model[3].weight.data = torch.roll(model[3].weight.data, 3, 0).flip(1)


def models(*functions):
    """The MLP changed by each function, under the function's name."""
    return {function.__name__.replace("_", " "): changed(mlp)(function) for function in functions}


# ---- what torch's dispatcher does not show, or shows as what it is not -------------------------------


def numpy_written(model):
    model[0].weight.detach().numpy()[:] *= 2
    model[3].bias.detach().numpy()[3] = 7.0


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = mlp()
    other.load_state_dict(torch.load(file))
    return other


def half_copied(model):
    model[0].weight[:32].copy_(model[0].weight[32:])


MODELS = models(
    assigned, by_index, out_arguments, own_generator, flattened, clamped, strided, swapped, drawn_again,
    forward_before, scaled_by_itself, storage, converted_twice, rerun, bernoulli, pruned_by_random, dropped,
    numpy_written, saved_and_loaded, half_copied,
)  # fmt: skip

# ---- what a recording does not obey ------------------------------------------------------------------


def forked(model):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        model[0].weight.normal_()


UNREAD = models(forked)
"""Models that a recording misreads."""
