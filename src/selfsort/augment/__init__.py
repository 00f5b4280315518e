"""Random changes of whole batches of images, as tensors."""
