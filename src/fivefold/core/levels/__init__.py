"""The levels, cheapest first: each decides what to show instead of what, or what to ask of the provider; pure, one file each."""
