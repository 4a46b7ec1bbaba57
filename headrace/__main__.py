"""`python -m headrace VERB …`: the same as the `headrace` command, and what torchrun starts."""

from headrace.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
