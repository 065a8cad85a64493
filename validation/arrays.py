"""The types of arrays in signatures; a docstring or a comment says the shape."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Row = NDArray[np.float64]
Index = NDArray[np.int64]
