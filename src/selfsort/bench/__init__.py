"""Published against measured: tables of cells, the records of what was measured, and the pages made from them."""
