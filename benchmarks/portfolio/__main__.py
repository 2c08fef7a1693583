"""``python -m benchmarks.portfolio``."""

from benchmarks.portfolio.compare import main

if __name__ == "__main__":
    main()
