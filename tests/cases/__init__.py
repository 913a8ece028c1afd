"""Small inputs made from faults that users of other tools reported, each run through the engine."""
