# Written by `python -m tests.test_stub` from MODULES and SHORTCUTS of __init__.py; not by hand.
from hlmtheory import batching as batching
from hlmtheory import channel as channel
from hlmtheory import codec as codec
from hlmtheory import conformal as conformal
from hlmtheory import draft_length as draft_length
from hlmtheory import lattice as lattice
from hlmtheory import lossless as lossless
from hlmtheory import ofdma as ofdma
from hlmtheory import policy as policy
from hlmtheory import serving as serving
from hlmtheory import shared_seed as shared_seed
from hlmtheory import skipping as skipping
from hlmtheory import traces as traces
from hlmtheory import truncation as truncation
from hlmtheory import uncertainty as uncertainty
from hlmtheory import verification as verification
from hlmtheory import vocabulary as vocabulary
from hlmtheory import wire as wire
from hlmtheory.codec import decode as decode
from hlmtheory.codec import encode as encode
from hlmtheory.draft_length import optimal_draft_length as optimal_draft_length
from hlmtheory.skipping import calibrate as calibrate
from hlmtheory.skipping import non_acceptance as non_acceptance
from hlmtheory.traces import open_trace as open_trace
from hlmtheory.truncation import certified_size as certified_size
from hlmtheory.truncation import resampling_bias as resampling_bias
from hlmtheory.verification import acceptance_rate as acceptance_rate
from hlmtheory.verification import softmax as softmax
from hlmtheory.verification import total_variation as total_variation
from hlmtheory.claims import Claim

__version__: str
MODULES: tuple[str, ...]
SHORTCUTS: dict[str, str]
__all__: list[str]

def all_claims() -> dict[str, Claim]: ...
def __dir__() -> list[str]: ...
