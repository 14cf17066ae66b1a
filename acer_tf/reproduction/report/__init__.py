"""What an experiment shows: its evidence in results/, tables, figures, and the page over all of them."""
