"""fivefold: keep an LLM agent's conversation inside its context window."""

__version__ = "0.1.0"
