"""The paper's experiments: published data, grids, sweeps, aggregation and report."""
