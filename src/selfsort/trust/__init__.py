"""How far a clustering can be trusted, judged without labels."""
