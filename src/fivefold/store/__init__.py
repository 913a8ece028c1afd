"""Where conversations are kept: session files, the lock on them, and the search of what was folded away (K)."""
