"""The providers: what their models are, what their errors mean, and their clients. The core imports none of this (V1)."""
