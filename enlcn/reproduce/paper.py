"""The paper's figures as data: tables 2 to 4 and those of the supplement. Table 1 is in `enlcn.evaluate.paper`."""

# Table 2: Set5 x4, PSNR in dB.
ABLATION = {
    "base": 32.21,
    "ENLA": 32.37,
    "ENLA + k": 32.44,
    "ENLA + contrast": 32.41,
    "ENLA + k + contrast": 32.48,
}

# Table 3: Set5 x4, 200 epochs; n1 in percent -> n2 in percent -> PSNR.
N1N2 = {
    "1": {"4": 32.40, "8": 32.42, "13": 32.41, "20": 32.38},
    "1.5": {"4": 32.42, "8": 32.47, "13": 32.44, "20": 32.42},
    "2": {"4": 32.45, "8": 32.48, "13": 32.44, "20": 32.42},
    "3": {"4": 32.43, "8": 32.46, "13": 32.44, "20": 32.41},
}

# Figure 6 is a drawing: the text says that k = 6 is best. Table 2 gives two of its points, with contrastive learning.
AMPLIFICATION = {1: 32.41, 6: 32.48}

# Table 4: Urban100 x4; GFLOPs at 100 x 100 with 64 channels in and out, PSNR where given.
EFFICIENCY: dict[str, tuple[float, float | None]] = {
    "baseline": (0.0, 26.64),
    "NLA": (25.60, 26.87),
    "3x3 convolution": (0.74, None),
    "NLSA-r4": (5.08, 26.96),
    "ENLCA-m256": (1.31, 27.12),
    "ENLCA-m128": (0.66, 27.12),
    "ENLCA-m64": (0.33, 27.09),
    "ENLCA-m32": (0.16, 27.07),
    "ENLCA-m16": (0.08, 27.07),
    "ENLCA-m8": (0.04, 27.03),
    "ENLCA-m4": (0.02, 27.01),
    "ENLCA-m2": (0.01, 26.88),
}

# Supplement C: milliseconds on a 2080 Ti at 100 x 100 and 150 x 150, 64 channels.
RUNTIME_DEVICE = "NVIDIA 2080 Ti"
RUNTIME: dict[str, tuple[float, float]] = {
    "NLA": (42.8, 107.2),
    "NLSA-r4": (3.9, 8.8),
    "ENLCA-m128": (0.9, 1.6),
}

# Supplement D: Urban100 x4, PSNR in dB.
CRISSCROSS = {"baseline": 26.64, "Non-Local": 26.87, "Criss-Cross": 26.85, "NLSA": 26.96, "ENLCA": 27.12}

# What the paper trained, for the label of a miniature.
PARAMETERS = 43.58e6
TRAINING = "1,000 epochs of 1,000 steps (n1 and n2: 200 epochs), 16 crops of 28x28, DIV2K"
