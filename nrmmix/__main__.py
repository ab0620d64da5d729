"""`python -m nrmmix` is the command line `nrmmix`."""

from nrmmix.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
