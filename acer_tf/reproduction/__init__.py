"""What figures share: published data, cells and their evidence, sweeps, statistics and reports."""
