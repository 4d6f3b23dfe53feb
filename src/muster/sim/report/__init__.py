"""What is told of simulations: figures, bounds, intervals, tables, files, plots and a page."""
