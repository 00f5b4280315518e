"""What the page shows, one module per section: numbers out of a run, and the drawings and words they make."""
