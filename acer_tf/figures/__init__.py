"""The figures and tables of the papers: each is a module with an object FIGURE, and a command of the same name."""
