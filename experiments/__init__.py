"""A page per figure and table of the papers, and one per command: what each makes, and what runs it."""
