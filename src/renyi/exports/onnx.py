"""Write a model as an ONNX graph: strings and doubles in, probabilities out.

Every column is an input of shape (rows, 1). A column of labels has strings, the text of
the label as `str` writes it. A column of numbers has doubles. ONNX has no missing
string: a missing cell is one of the model's missing codes ("?", ""), or "(missing)" if
it has none. A missing number is NaN. The outputs are `label`, of shape (rows,), and
`probabilities`.

Everything is computed in doubles, for all features at once: a cell's code is the place
of its points in one table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT
from renyi.encoding.rules import class_array
from renyi.exports.functions import (
    PlainColumn,
    PlainFeature,
    PlainModel,
    has_text,
    plain_model,
)
from renyi.validation import InputError, import_extra

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

OUTPUTS = ("label", "probabilities")
_OPSETS = {"": 18, "ai.onnx.ml": 3}
_VERSION = 8  # of the format; runtimes of 2022 can read it


def model_bytes(card: Scorecard, odds: float) -> bytes:
    """Return the file."""
    onnx = import_extra("onnx", "onnx", "Writing ONNX needs the package onnx")
    model = plain_model(card, odds)
    _check(model)
    graph = _Graph(onnx.helper, [column.name for column in model.columns])
    scores = _scores(graph, model)
    label = _label(graph, model, scores)
    shares = _probabilities(graph, model, scores)
    made = graph.finished(model, label, shares)
    opsets = [onnx.helper.make_opsetid(*each) for each in _OPSETS.items()]
    whole = onnx.helper.make_model(
        made,
        opset_imports=opsets,
        ir_version=_VERSION,
        producer_name="renyi",
        producer_version=__version__,
    )
    onnx.checker.check_model(whole)
    return bytes(whole.SerializeToString())


def _check(model: PlainModel) -> None:
    """Raise an error for a model that a graph cannot represent."""
    if model.strict:
        raise InputError(
            "ONNX cannot raise an error for a label unseen in training, as this model "
            "does: train one that counts such labels as the mean.",
            "unseen=mean",
            python="unseen='mean'",
        )
    for column in model.columns:
        name = column.name
        if not name or "\0" in name or not has_text(name):
            raise ValueError(f"Column {name!r:.60} cannot be named in ONNX: rename it.")
        if name in OUTPUTS:
            raise ValueError(
                f"Column {name!r} has the same name as an output: rename it."
            )
        for text in column.codes:
            if not has_text(text):
                raise ValueError(
                    f"Column {name!r}: ONNX cannot represent the text {text!r:.60}."
                )
    for label in model.classes:
        # Runtimes cut the text of an answer at a null.
        if isinstance(label, str) and ("\0" in label or not has_text(label)):
            raise ValueError(f"ONNX cannot represent the class {label!r:.60}.")


class _Graph:
    """Nodes and constants, with names that no column has."""

    def __init__(self, helper: ModuleType, taken: Sequence[str]) -> None:
        self.helper = helper
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        names = (f"n{k}" for k in count())
        known = {*taken, *OUTPUTS}
        self.names: Iterator[str] = (name for name in names if name not in known)

    def __call__(
        self, kind: str, *inputs: str | NDArray[Any], **options: object
    ) -> str:
        """Add a node and return its output; arrays among its inputs are constants."""
        given = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        made = next(self.names)
        domain = "ai.onnx.ml" if kind == "LabelEncoder" else ""
        self.nodes.append(
            self.helper.make_node(kind, given, [made], domain=domain, **options)
        )
        return made

    def constant(self, array: NDArray[Any]) -> str:
        name = next(self.names)
        text = array.dtype.kind == "U"
        kind = self.helper.np_dtype_to_tensor_dtype(
            np.dtype(object) if text else array.dtype
        )
        values = [each.encode() for each in array.tolist()] if text else array.ravel()
        self.constants.append(self.helper.make_tensor(name, kind, array.shape, values))
        return name

    def finished(self, model: PlainModel, label: str, shares: str) -> Any:
        """Return the graph of these outputs."""
        helper = self.helper
        double = np.dtype(np.float64)
        kinds = {"label": np.dtype(object), "number": double}

        def described(
            name: str, dtype: np.dtype[Any], shape: Sequence[str | int]
        ) -> object:
            kind = helper.np_dtype_to_tensor_dtype(dtype)
            return helper.make_tensor_value_info(name, kind, shape)

        inputs = [
            described(column.name, kinds[column.kind], ["rows", 1])
            for column in model.columns
        ]
        classes = class_array(model.classes).dtype
        classes = np.dtype(object) if classes.kind == "U" else classes
        outputs = [
            described(OUTPUTS[0], classes, ["rows"]),
            described(OUTPUTS[1], double, ["rows", len(model.classes)]),
        ]
        for name, each in zip(OUTPUTS, (label, shares), strict=True):
            self.nodes.append(helper.make_node("Identity", [each], [name]))
        return helper.make_graph(
            self.nodes, "renyi", inputs, outputs, initializer=self.constants
        )


def _scores(graph: _Graph, model: PlainModel) -> str:
    """Return the scores: (rows, 1 or K)."""
    each = [_codes(graph, column) for column in model.columns]
    codes = graph("Concat", *each, axis=1)
    sizes = np.array([column.unseen + 1 for column in model.columns])
    features = model.features
    if features[0].places:
        features = sorted(features, key=_size)
        parts = [
            _tuple_codes(graph, [*group], codes, sizes)
            for _, group in groupby(features, _size)
        ]
        codes = graph("Concat", *parts, axis=1)
    starts = offsets([len(feature.points) for feature in features])[:-1]
    places = graph("Add", codes, starts[None, :].astype(np.int64))
    points = np.concatenate([np.array(feature.points) for feature in features])
    gathered = graph("Gather", points, places)
    total = graph("ReduceSum", gathered, np.array([1]), keepdims=0)
    return graph("Add", total, np.array([model.start]))


def _size(feature: PlainFeature) -> int:
    return len(feature.members)


def _tuple_codes(
    graph: _Graph, features: Sequence[PlainFeature], codes: str, sizes: NDArray[Any]
) -> str:
    """Return the codes of features of equally many columns: (rows, features)."""
    members = np.array([feature.members for feature in features])
    starts = offsets([len(feature.places) for feature in features])[:-1]
    place: Any = starts[None, :].astype(np.int64)
    for axis in range(members.shape[1]):
        stride = np.prod(sizes[members[:, axis + 1 :]], axis=1, dtype=np.int64)
        digits = graph("Gather", codes, members[:, axis], axis=1)
        place = graph("Add", place, graph("Mul", digits, stride[None, :]))
    flat = np.concatenate([np.array(f.places, np.int64) for f in features])
    return graph("Gather", flat, place)


def _codes(graph: _Graph, column: PlainColumn) -> str:
    """Return the codes of a column: (rows, 1)."""
    if column.kind == "label":
        codes = {**column.codes}
        if not any(code == column.missing for code in codes.values()):
            codes.setdefault(MISSING_TEXT, column.missing)
        return graph(
            "LabelEncoder",
            column.name,
            keys_strings=list(codes),
            values_int64s=list(codes.values()),
            default_int64=column.unseen,
        )
    cells = column.name
    edges = np.array([column.edges], np.float64)
    above = graph("Cast", graph("GreaterOrEqual", cells, edges), to=7)  # int64
    code = graph("ReduceSum", above, np.array([1]), keepdims=1)
    known = graph("Equal", cells, cells)  # False for NaN
    code = graph("Where", known, code, np.array([[column.missing]]))
    for gap in column.gaps:
        is_gap = graph("Equal", cells, np.array([[gap]]))
        code = graph("Where", is_gap, np.array([[column.missing]]), code)
    return code


def _estimates(graph: _Graph, model: PlainModel, scores: str) -> str:
    """Return t = 1/K + s of every class."""
    K = len(model.classes)
    if K == 2:
        scores = graph("Concat", graph("Neg", scores), scores, axis=1)
    return graph("Add", scores, np.array([[1 / K]]))


def _label(graph: _Graph, model: PlainModel, scores: str) -> str:
    """Return the class of the largest estimate, the first of equals."""
    if model.threshold:
        scores = graph("Sub", scores, np.array([[model.threshold]]))
    best = graph("ArgMax", _estimates(graph, model, scores), axis=1, keepdims=0)
    return graph("Gather", class_array(model.classes), best)


def _probabilities(graph: _Graph, model: PlainModel, scores: str) -> str:
    """Return the calibrated probabilities, or the nearest ones to the estimates."""
    t = _estimates(graph, model, scores)
    K = len(model.classes)
    if model.slope:
        p = graph("Softmax", graph("Mul", t, np.array([[model.slope]])), axis=1)
        return graph("Max", p, np.array([[np.finfo(np.float64).tiny]]))
    t = graph("Sub", t, graph("ReduceMax", t, np.array([1]), keepdims=1))
    ordered = next(graph.names)
    lost = next(graph.names)
    sizes = graph.constant(np.array([K]))
    graph.nodes.append(
        graph.helper.make_node("TopK", [t, sizes], [ordered, lost], axis=1)
    )
    total = graph("Sub", graph("CumSum", ordered, np.array(1)), np.array([[1.0]]))
    excess = graph("Div", total, np.arange(1.0, K + 1)[None, :])
    # The excess of the last in the support is the largest of all.
    shift = graph("ReduceMax", excess, np.array([1]), keepdims=1)
    p = graph("Max", graph("Sub", t, shift), np.array([[0.0]]))
    if model.odds != 1:
        odds = np.array([[min(1.0, 1 / model.odds), min(1.0, model.odds)]])
        p = graph("Mul", p, odds)
        p = graph("Div", p, graph("ReduceSum", p, np.array([1]), keepdims=1))
    return p
