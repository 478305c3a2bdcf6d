"""The model file: a classifier as JSON that predicts the same to the last bit.

A document holds the settings of the classifier, how alpha was chosen, the certificate
and the scorecard. It may come from a stranger: the fields and their types are checked
here, what is inside the scorecard and the certificate by these themselves.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from renyi import __version__
from renyi.certificates.record import Certificate
from renyi.encoding import rules as column_rules
from renyi.files import LABEL, NUMBER, Sink, check_fields, read_json, valid, write_json
from renyi.marginals.file import DataDigest
from renyi.scorecard import FORMAT, VERSION, Scorecard
from renyi.solvers.ridge import AlphaChoice

if TYPE_CHECKING:
    import os

    from renyi.estimators.model import RenyiModel

M = TypeVar("M", bound="RenyiModel")
Fields = dict[str, tuple[type, ...]]

_DOCUMENT: Fields = {
    "format": (str,),
    "version": (int,),
    "renyi": (str,),
    "checksum": (str,),
    "target": (str,),
    "classifier": (dict,),
    "alpha_choice": (dict,),
    "named": (bool,),
    "certificate": (dict,),
    "scorecard": (dict,),
}
# Since version 2.
_DATA_DIGEST: Fields = {"data_digest": (dict, NoneType)}
_DIGEST: Fields = {"classes": (str,), "pairs": (str, NoneType)}
_SETTINGS: Fields = {
    "order": (int,),
    "alpha": (*NUMBER, str),
    "rule": (str,),
    "fit_intercept": (bool,),
    "class_weight": (list, str, NoneType),
    "random_state": (int, NoneType),
}
# Since version 3; None before.
_CALIBRATION: Fields = {"calibration": (str, NoneType)}
_CHOICE: Fields = {
    "method": (str,),
    "alpha": NUMBER,
    "risk": (*NUMBER, NoneType),
    "error": (*NUMBER, NoneType),
}


def write(clf: RenyiModel, path: Sink) -> None:
    """Write a fitted classifier; see `RenyiClassifier.save`."""
    clf._check_fitted()
    clf._check_parameters()  # they may have been set after the fit
    choice = clf.alpha_choice_
    digest = clf.data_digest_
    seed = clf.random_state
    weights = clf.class_weight
    whole = isinstance(seed, (int, np.integer))
    settings = {key: _plain(getattr(clf, key)) for key in _SETTINGS | _CALIBRATION}
    settings["fit_intercept"] = bool(clf.fit_intercept)
    settings["random_state"] = int(seed) if whole else None
    if isinstance(weights, dict):
        settings["class_weight"] = [[_plain(k), _plain(v)] for k, v in weights.items()]
    if clf.objective != "error":  # as in files of before
        settings["objective"] = str(clf.objective)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "renyi": __version__,
        "target": clf._target,
        "data_digest": None if digest is None else asdict(digest),
        "classifier": settings,
        "alpha_choice": {key: getattr(choice, key) for key in _CHOICE},
        "named": hasattr(clf, "feature_names_in_"),
        "certificate": clf.certificate_.to_dict(),
        "scorecard": clf.scorecard_.to_dict(),
    }
    write_json(path, document)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def read(path: str | os.PathLike[str], kind: type[M]) -> M:
    """Read a classifier of the class `kind`; see `RenyiClassifier.load`."""
    data = read_json(path, FORMAT, versions=VERSION)
    with valid(path):
        return _from_document(data, kind)


def _from_document(data: dict[str, Any], kind: type[M]) -> M:
    later = _DATA_DIGEST if data["version"] > 1 else {}
    check_fields(data, _DOCUMENT | later, "document")
    fields = _SETTINGS | (_CALIBRATION if data["version"] > 2 else {})
    check_fields(data["classifier"], fields, "classifier", {"objective": (str,)})
    check_fields(data["alpha_choice"], _CHOICE, "alpha_choice")
    card = Scorecard.from_dict(data["scorecard"])
    classes = column_rules.class_array(card.classes)
    settings = {"calibration": None, "objective": "error", **data["classifier"]}
    if isinstance(settings["class_weight"], list):
        settings["class_weight"] = _weights_of(settings["class_weight"])
    column_rules.class_factors(settings["class_weight"], classes, np.ones(len(classes)))
    if data["target"] in card.encoder.input_names:
        raise ValueError(f"its target {data['target']!r:.60} is a feature, too")
    if settings["order"] != card.encoder.order:
        raise ValueError(f"its order is {settings['order']!r}, not its scorecard's")
    clf = kind(**settings, encoder=card.encoder.single.settings())
    clf._check_parameters()
    card = replace(card, target=data["target"])
    become(clf, card, AlphaChoice(**data["alpha_choice"]), data["named"])
    if data.get("data_digest") is not None:
        check_fields(data["data_digest"], _DIGEST, "data_digest")
        clf._digest = DataDigest(**data["data_digest"])
    clf._certificate = Certificate.from_dict(data["certificate"])
    return clf


def become(clf: RenyiModel, card: Scorecard, choice: AlphaChoice, named: bool) -> None:
    """Make a classifier that of a scorecard, whose rows are not at hand."""
    assert card.target is not None
    clf._target = card.target
    clf.classes_ = column_rules.class_array(card.classes)
    clf._keep_names(card.encoder, named)
    clf.marginals_ = None
    clf._kept = None
    clf._sample = None
    clf._notes = ()
    clf._take(card, choice)


def _weights_of(pairs: list[Any]) -> dict[Any, float]:
    """Return the class weights of a model file."""
    for pair in pairs:
        good = isinstance(pair, list) and len(pair) == 2
        if not good or type(pair[0]) not in LABEL or type(pair[1]) not in NUMBER:
            raise ValueError("its class weights are not valid")
    weights = dict(pairs)
    if len(weights) < len(pairs):
        raise ValueError("its class weights name a class twice")
    return weights
