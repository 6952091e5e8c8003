"""Results of many runs: tables, plots, and published scores beside them."""
