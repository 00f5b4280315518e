"""`python -m selfsort` and `torchrun -m selfsort`."""

from selfsort.cli.main import main

if __name__ == "__main__":
    main()
