"""How an experiment is shown: tables, figures, and the page over all of them."""
