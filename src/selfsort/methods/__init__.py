"""One paper, one file: settings, equations, network choice, training loop, in this order."""
