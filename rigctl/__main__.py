"""`python -m rigctl`, for machines where another program is called rigctl."""

from rigctl.entry import main

if __name__ == "__main__":
    main()
