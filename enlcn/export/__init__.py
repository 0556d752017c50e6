"""Networks for other programs: ONNX, torch.export, the Hugging Face Hub, spandrel."""
