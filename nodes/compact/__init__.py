"""The steps that compact the old part of an archived conversation into a short account."""
