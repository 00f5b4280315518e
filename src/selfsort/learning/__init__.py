"""What every training shares: seeds, device, batches, the inner epoch, rates, encoding, checkpoints."""
