"""A strict local stand-in for the providers' APIs, to which their official SDKs talk unmodified (spec section 19).

Needs the packages of the extra ``simulator``. What tests and agents use is here; docs/simulator.md has examples.
"""

from __future__ import annotations

from .accounts import Journal, Record
from .faults import Fault, Faults, read_faults
from .script import Call, Reply, Request, Script, Structural, read_script, recorded
from .serve import Simulator

__all__ = [
    "Call",
    "Fault",
    "Faults",
    "Journal",
    "Record",
    "Reply",
    "Request",
    "Script",
    "Simulator",
    "Structural",
    "read_faults",
    "read_script",
    "recorded",
]
