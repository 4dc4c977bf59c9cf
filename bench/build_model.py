"""Build one model in a process of its own, and print the seconds and the memory of the build alone, as JSON.

``python bench/build_model.py MODEL own|fast|record|touch``: its own code, `fast_init`, `record`, or memory of the
model's size that is touched by two threads and nothing else.
"""

import ctypes
import json
import logging
import mmap
import multiprocessing
import resource
import sys
import threading
import time
import warnings

import torch
import transformers

import fastinit.torch

logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")


def llama(dtype):
    config = transformers.LlamaConfig(
        hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
        num_key_value_heads=8, vocab_size=128256, tie_word_embeddings=True, dtype=dtype,
    )  # fmt: skip
    return lambda: transformers.LlamaForCausalLM._from_config(config)


def gpt2():
    return lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config())


def vit():
    return lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))


def whisper():
    config = transformers.WhisperConfig(
        d_model=768, encoder_layers=12, decoder_layers=12, encoder_attention_heads=12, decoder_attention_heads=12,
        encoder_ffn_dim=3072, decoder_ffn_dim=3072,
    )  # fmt: skip
    return lambda: transformers.WhisperForConditionalGeneration(config)


def convnext():
    config = transformers.ConvNextConfig(depths=[3, 3, 27, 3], hidden_sizes=[128, 256, 512, 1024], num_labels=1000)
    return lambda: transformers.ConvNextForImageClassification(config)


def mixtral():
    config = transformers.MixtralConfig(
        hidden_size=1024, intermediate_size=3584, num_hidden_layers=10, num_attention_heads=16,
        num_key_value_heads=8, num_local_experts=8, vocab_size=32000,
    )  # fmt: skip
    return lambda: transformers.MixtralForCausalLM(config)


MODELS = {
    "llama 1.24 B float32": lambda: llama("float32"),
    "llama 1.24 B bfloat16": lambda: llama("bfloat16"),
    "gpt2 124 M": gpt2,
    "vit-b/16": vit,
    "whisper-small": whisper,
    "convnext-b": convnext,
    "mixtral-like 1 B": mixtral,
}


def size_of(build):
    with torch.device("meta"):
        model = build()
    return sum(tensor.nbytes for tensors in (model.parameters(), model.buffers()) for tensor in tensors)


def touch(size):
    """Touch fresh memory, in huge pages where the system has them, by two threads; return the seconds.

    Private memory, as torch's is: shared memory seldom gets huge pages, and takes ten times as long.
    """
    began = time.perf_counter()
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    half = size // 2
    threads = [threading.Thread(target=ctypes.memset, args=(start + at, 1, half)) for at in (0, half)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def main():
    build, how = MODELS[sys.argv[1]](), sys.argv[2]
    size = size_of(build)
    child = multiprocessing.get_context("spawn").Process(target=touch, args=(size + size // 4,))
    child.start()  # a virtual machine gets memory from its host on first touch, slowly, and keeps it for a while
    child.join()
    if how == "touch":
        print(json.dumps({"seconds": touch(size)}))
        return
    with fastinit.torch.fast_init(17):
        torch.nn.Linear(64, 64)  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    if how == "own":
        model = build()
    else:
        with getattr(fastinit.torch, {"fast": "fast_init", "record": "record"}[how])(17):
            model = build()
    seconds = time.perf_counter() - began
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    tensors = len(list(model.parameters()))
    print(json.dumps({"seconds": seconds, "peak": peak, "model": size, "tensors": tensors}))


if __name__ == "__main__":
    main()
