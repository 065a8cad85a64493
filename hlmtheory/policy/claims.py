"""The claims of the module; the records stand with their proofs in the files named here."""

from __future__ import annotations

from hlmtheory.policy.colocated_claims import COLOCATED_CLAIMS
from hlmtheory.policy.distance_claims import DISTANCE_CLAIMS
from hlmtheory.policy.fading_claims import FADING_CLAIMS
from hlmtheory.policy.served_claims import SERVED_CLAIMS
from hlmtheory.policy.user_claims import USER_CLAIMS

CLAIMS = (
    *USER_CLAIMS,
    *FADING_CLAIMS,
    *SERVED_CLAIMS,
    *COLOCATED_CLAIMS,
    *DISTANCE_CLAIMS,
)
