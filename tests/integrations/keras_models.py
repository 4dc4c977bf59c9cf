"""What fastinit.keras makes on the backend of KERAS_BACKEND, for test_keras.py: a line of JSON, case -> facts."""

import hashlib
import inspect
import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
from keras import layers, ops

import fastinit.keras as fk

DRAWN = {
    "GlorotUniform": {}, "GlorotNormal": {}, "HeUniform": {}, "HeNormal": {}, "LecunUniform": {},
    "LecunNormal": {},
    "VarianceScaling": {"scale": 0.5, "mode": "fan_out", "distribution": "untruncated_normal"},
    "RandomNormal": {"mean": 0.5}, "RandomUniform": {"maxval": 0.25}, "TruncatedNormal": {"stddev": 2.0},
}  # fmt: skip
SHAPES = {"vector": (640,), "matrix": (48, 32), "kernel": (3, 3, 16, 24)}


def digest(tensor):
    array = ops.convert_to_numpy(ops.cast(tensor, "float32") if str(tensor.dtype).endswith("bfloat16") else tensor)
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


def made(name, **options):
    return getattr(fk, name)(**DRAWN.get(name, {}), **options, seed=17, name="w")


def error(call):
    try:
        call()
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
    return "nothing"


def draws():
    """Digests of each class, and beside them mean, spread and extremes of Keras's own draws."""
    for name, options in DRAWN.items():
        for shape in SHAPES.values():
            tensor = made(name)(shape)
            assert tuple(tensor.shape) == shape
            yield f"{name} {shape}", digest(tensor)
        own, theirs = made(name)((300, 700)), getattr(keras.initializers, name)(**options, seed=1)((300, 700))
        yield f"{name} moments", [moments(own), moments(theirs)]
        parameters = [p.name for p in inspect.signature(getattr(keras.initializers, name)).parameters.values()]
        assert set(made(name).get_config()) == {*parameters, "name"}, "an argument of Keras's is lost"


def moments(tensor):
    array = ops.convert_to_numpy(tensor).astype("f8")
    return [array.mean(), array.std(), array.min(), array.max()]


def dtypes():
    for dtype in ("float16", "bfloat16", "float32"):
        tensor = made("GlorotUniform")((48, 32), dtype=dtype)
        assert keras.backend.standardize_dtype(tensor.dtype) == dtype
        yield f"dtype {dtype}", digest(tensor)
    yield "dtype float64", error(lambda: made("GlorotUniform")((48, 32), dtype="float64"))


def saved():
    """A model's file finds the classes again, and they draw the same."""
    init = made("GlorotUniform")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(init))
    yield "serialized", digest(again((48, 32)))
    yield "cloned", digest(init.clone()((48, 32)) if hasattr(init, "clone") else init((48, 32)))
    model = keras.Sequential([keras.Input((48,)), layers.Dense(32, kernel_initializer=init, name="dense")])
    yield "in a layer", digest(model.layers[0].kernel)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        loaded = keras.models.load_model(path)
    yield "loaded", digest(loaded.layers[0].kernel_initializer((48, 32)))


def attention():
    """EinsumDense tells an initializer which axes are inputs, if it is one of Keras's own."""
    x = keras.Input((4, 48))
    layer = layers.MultiHeadAttention(2, 16, name="mha", kernel_initializer=made("GlorotUniform"))
    layer(x, x)
    yield "heads", [list(layer.weights[0].shape), digest(layer.weights[0])]


def model():
    x = keras.Input((8, 6), name="x")
    y = layers.BatchNormalization(name="bn")(layers.Conv1D(8, 3, padding="same", name="conv1d")(x))
    y = layers.MultiHeadAttention(2, 4, name="mha")(layers.LayerNormalization(name="ln")(y), y)
    y = layers.GRU(8, return_sequences=True, name="gru")(layers.LSTM(8, return_sequences=True, name="lstm")(y))
    y = layers.SeparableConv1D(8, 3, padding="same", name="separable")(layers.Dropout(0.1)(y))
    y = layers.DepthwiseConv1D(3, padding="same", name="depthwise_conv1d")(y)
    y = layers.Conv1DTranspose(8, 3, padding="same", name="conv1d_transpose")(y)
    return keras.Model(x, layers.Dense(1, name="head")(y), name="model")


def whole_model():
    built = model()
    built.compile(keras.optimizers.SGD(0.01), "mse")
    plan = fk.init_model(built, 17)
    for variable in built.weights:
        yield f"variable {variable.path}", [list(variable.shape), digest(variable.value)]
    yield "plan", plan.to_json()
    x = np.linspace(-1, 1, 2 * 8 * 6, dtype="f4").reshape(2, 8, 6)
    y = np.ones((2, 8, 1), "f4")
    before = built.evaluate(x, y, verbose=0)
    built.fit(x, y, epochs=3, verbose=0)
    yield "losses", [before, built.evaluate(x, y, verbose=0)]


def refusals():
    yield "no name", error(lambda: fk.HeNormal(seed=17))
    yield "no seed", error(lambda: fk.HeNormal(name="w"))
    yield "positional seed", error(lambda: fk.HeNormal(17))
    yield "negative seed", error(lambda: fk.HeNormal(seed=-1, name="w"))
    yield "integers", error(lambda: made("RandomUniform")((2, 2), "int32"))
    yield "not built", error(lambda: fk.init_model(keras.Sequential([layers.Dense(3)], name="m"), 17))
    yield "empty", list(made("GlorotUniform")((0, 8)).shape)
    built = model()
    before = [digest(variable.value) for variable in built.weights]
    yield "no such policy", error(lambda: fk.init_model(built, 17, "no-such"))
    yield "untouched", before == [digest(variable.value) for variable in built.weights]
    yield "orthogonal", digest(fk.Orthogonal(2.0, seed=17, name="w")((3, 8, 8)))


if __name__ == "__main__":
    assert keras.backend.backend() == sys.argv[1]
    cases = (draws, dtypes, saved, attention, whole_model, refusals)
    print(json.dumps({name: fact for case in cases for name, fact in case()}))
