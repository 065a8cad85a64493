"""A sorted pair of rows, for TV(r, r̂_k) at many k: what ``hlmtheory.exact_size`` itself looks at."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hlmtheory.truncation.ranked import Ranked

__all__ = ["Ranked", "Row"]

Row = NDArray[np.float64]
