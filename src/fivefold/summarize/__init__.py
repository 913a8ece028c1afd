"""Summaries of what is folded away: made from the log alone (L6, L14), framed as data (L9), with a receipt (L13)."""
