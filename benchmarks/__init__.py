"""What things cost: measurements of the parts and of the whole loop, and the limit that the machine sets."""
