"""Pixels on disk, and the conversions between files, arrays and tensors."""
