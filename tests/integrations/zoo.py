"""Small models of real libraries: what `fastinit.torch` must start as their own code does.

Every model takes well under a second on one core, holds a few hundred kilobytes and downloads nothing. A library
is imported when its first model is built, so an absent one skips its own models alone. Next to read:
zoo_transformers.py, zoo_others.py (timm, diffusers, peft), zoo_torch.py and zoo_by_hand.py.
"""

from collections.abc import Callable

from conftest import peer

torch = peer("torch")

from integrations import zoo_by_hand, zoo_others, zoo_torch, zoo_transformers  # noqa: E402

MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    f"{library}/{name}": build
    for library, models in {
        "torch": zoo_torch.MODELS,
        "by hand": zoo_by_hand.MODELS,
        "transformers": zoo_transformers.MODELS,
        **zoo_others.MODELS,
    }.items()
    for name, build in models.items()
}
