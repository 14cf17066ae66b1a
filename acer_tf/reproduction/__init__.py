"""The paper's experiments: published data, runs, sweeps, statistics and report."""
