"""`python -m nmt` is the same as `nmt`."""

from nmt.cli import main

if __name__ == "__main__":
    main()
