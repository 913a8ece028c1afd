"""Transcript formats, one file each: recognised by content, read in a stream, nothing lost (Z3)."""
