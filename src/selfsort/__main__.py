"""`python -m selfsort` and `torchrun -m selfsort`."""

from selfsort.cli import main

if __name__ == "__main__":
    main()
