"""Lines on stderr; this module loads nothing, not even NumPy: `import nrmmix` reads it before Ctrl-C can be delayed."""

import sys


def tell(text: str) -> None:
    """A line on stderr; a stream that is closed or broken costs the line, not the work."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (AttributeError, ValueError, OSError, RuntimeError):
        pass
