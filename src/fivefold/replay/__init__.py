"""Recorded conversations judged: what a fold keeps of what was needed later."""
