"""What a function says of itself: `help`, the stub that editors read, and its refusals tell the same story."""

import ast
import inspect
import re

import pytest
from conftest import ROOT

import fastinit
from fastinit import initializers
from fastinit.functions import as_initializer
from fastinit.initializers import Initializer

STUB = ast.parse((ROOT / "fastinit" / "functions.pyi").read_text())
DECLARED = {
    node.name: node
    for node in STUB.body
    if isinstance(node, ast.FunctionDef) and node.name not in ("as_initializer", "as_text")
}
"""The last of the overloads, which has every argument."""
ALIASES = {
    node.targets[0].id: node.value.id
    for node in STUB.body
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
}
FUNCTIONS = [*DECLARED, *ALIASES]
OF_THE_CALL = ("gain", "dtype", "out", "index", "layout", "groups", "fan_in", "fan_out", "threads")


def parameters(node):
    """(name, kind, default) of a function in the stub."""
    plain, keyword = node.args.args, node.args.kwonlyargs
    defaults = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults
    return [
        *((a.arg, "POSITIONAL_OR_KEYWORD", d) for a, d in zip(plain, defaults, strict=True)),
        *((a.arg, "KEYWORD_ONLY", d) for a, d in zip(keyword, node.args.kw_defaults, strict=True)),
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_help_explains_every_argument(name):
    function = getattr(fastinit, name)
    for argument in inspect.signature(function).parameters:
        assert re.search(rf"^{argument} : .+\n    \S", function.__doc__, re.MULTILINE), argument
    assert "Parameters\n----------" in function.__doc__


@pytest.mark.parametrize("name", DECLARED)
def test_the_stub_and_the_function_have_one_signature_and_one_summary(name):
    """An editor that offers an option which the function refuses, or hides one."""
    function, node = getattr(fastinit, name), DECLARED[name]
    found = [
        (p.name, p.kind.name, None if p.default is p.empty else repr(p.default))
        for p in inspect.signature(function).parameters.values()
    ]
    assert found == [(n, kind, d if d is None else repr(ast.literal_eval(d))) for n, kind, d in parameters(node)]
    shown = ast.get_docstring(node)
    assert shown.splitlines()[0] == function.__doc__.splitlines()[0]
    assert all(f"{argument}: " in shown for argument, _, _ in found)


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_is_the_function_itself(name):
    assert getattr(fastinit, name) is getattr(fastinit, ALIASES[name])


def test_every_function_is_declared_in_the_stub():
    made = {name for name, value in vars(fastinit.functions).items() if hasattr(value, "make")}
    assert made == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_option_is_answered_with_the_options_there_are(name):
    function = getattr(fastinit, name)
    with pytest.raises(TypeError) as refused:
        function((2, 2), lyout="oi")
    asked, _, options = str(refused.value).partition("; did you mean 'layout'? ")
    assert asked == f"{function.__name__}() has no option 'lyout'"
    assert options.startswith("its options are ")
    assert all(argument in str(refused.value) for argument in inspect.signature(function).parameters)


ELSEWHERE = [
    (lambda: fastinit.normal(size=(2, 2), rng=17), "no option 'size'; here it is called 'shape'"),
    (lambda: fastinit.normal((2, 2), 17, loc=1.0), "no option 'loc'; here it is called 'mean'"),
    (lambda: fastinit.normal((2, 2), 17, scale=0.02), "no option 'scale'; here it is called 'std'"),
    (lambda: fastinit.normal((2, 2), seed=17), "no option 'seed'; here it is called 'rng'"),
    (lambda: fastinit.uniform((2, 2), 17, minval=0.0), "no option 'minval'; here it is called 'low'"),
    (lambda: fastinit.xavier_uniform((2, 2), generator=17), "no option 'generator'; here it is called 'rng'"),
    (lambda: fastinit.kaiming_normal((2, 2), 17, nonlinearity="relu"), "here it is called 'activation'"),
    (lambda: fastinit.zeros((2, 2), rng=17), "no option 'rng'; it takes no draws, so it needs no generator"),
    (lambda: fastinit.identity(size=3), "no option 'size'; here it is called 'shape'"),
    (lambda: fastinit.xavier_normal((2, 2), 17, std=0.02), "no option 'std'; its options are"),
]


@pytest.mark.parametrize(("call", "said"), ELSEWHERE, ids=[row[1] for row in ELSEWHERE])
def test_the_names_of_other_libraries_are_answered_with_ours(call, said):
    """A list of eleven options, of which one must guess which is numpy's `loc`."""
    with pytest.raises(TypeError, match=re.escape(said)):
        call()


def test_scale_is_std_only_where_it_is_nothing_else():
    assert fastinit.variance_scaling((2, 2), 17, scale=2.0).shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (fastinit.normal, "missing a required argument: 'shape'"),
        (lambda: fastinit.normal((2, 2)), "missing a required argument: 'rng'"),
        (lambda: fastinit.sparse((2, 2), 17), "missing a required argument: 'fraction'"),
        (lambda: fastinit.zeros((2, 2), 17), "too many positional arguments"),
        (lambda: fastinit.normal((2, 2), 17, 0.0, 1.0, 2.0), "too many positional arguments"),
        (lambda: fastinit.orthogonal((2, 2), 17, 2.0), "too many positional arguments"),
        (lambda: fastinit.identity((2, 2), 2.0), "too many positional arguments"),
        (lambda: fastinit.normal((2, 2), 17, 0.0, mean=1.0), "multiple values for argument 'mean'"),
        (lambda: fastinit.constant((2, 2), value=1.0, shape=3), "multiple values for argument 'shape'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_the_functions_own_name(call, said):
    """A sentence about `Initializer.__call__` or a lambda, which the user never wrote."""
    with pytest.raises(TypeError) as refused:
        call()
    assert said in str(refused.value)
    assert re.match(r"(normal|sparse|zeros|constant|orthogonal|identity)\(\) ", str(refused.value))


def test_arguments_may_be_given_by_name():
    expected = fastinit.kaiming_uniform((3, 4), 17, "leaky_relu", 0.2, "fan_out")
    found = fastinit.kaiming_uniform(mode="fan_out", a=0.2, activation="leaky_relu", rng=17, shape=(3, 4))
    assert (found == expected).all()
    assert (fastinit.constant(value=2.0, shape=(2,)) == 2.0).all()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in ("constant", "sparse", "initialize")])
def test_a_name_stands_for_the_initializer_of_its_function(name):
    """`initialize(shape, rng, "he_normal")` and `he_normal(shape, rng)` that differ."""
    initializer = as_initializer(name)
    options = {"layout": "oihw"} if name in ("dirac", "delta_orthogonal") else {}
    shape = (8, 6, 3, 3) if options else (6, 8)
    function = getattr(fastinit, name)
    drawn = "rng" in inspect.signature(function).parameters
    assert (initializer(shape, 17, **options) == function(shape, *([17] if drawn else []), **options)).all()


def test_initializers_are_called_with_one_signature():
    classes = {value for value in map(vars(initializers).get, initializers.__all__) if isinstance(value, type)}
    assert len(classes) > 15
    for cls in classes:
        assert issubclass(cls, Initializer)
        assert cls.__call__ is Initializer.__call__
    called = list(inspect.signature(Initializer.__call__).parameters)
    assert called == ["self", "shape", "rng", *OF_THE_CALL]
