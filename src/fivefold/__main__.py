"""``python -m fivefold``, the same as ``fivefold`` (Z1)."""

from .cli import main

if __name__ == "__main__":
    main()
