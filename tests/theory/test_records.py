"""Every record of the theory is frozen and has slots: no value changes after its check, and no name is mistyped."""

from __future__ import annotations

"""What a search has left, and what it knows so far."""
CACHES = {"Cache", "Costs", "Rician", "Rayleigh", "GilbertElliott", "TraceLink", "BandUser", "Given"}
"""With cached properties or base classes, which slots exclude."""
