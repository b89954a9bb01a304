"""Built-in models, by name, over `MiniBatch`."""

from gnnhet.models.base import Dimensions, LayeredModel
from gnnhet.models.catalogue import MODELS, build_model

__all__ = ["MODELS", "Dimensions", "LayeredModel", "build_model"]
