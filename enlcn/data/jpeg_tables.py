"""The quantisation tables of JPEG's standard (ITU-T T.81, K.1 and K.2), which nearly every program scales.

As they are, they are those of quality 50 on libjpeg's scale.
"""

LUMA_STEPS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
CHROMA_STEPS = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *[(99,) * 8] * 4,
)


def steps_at(table: tuple[tuple[int, ...], ...], quality: int) -> list[list[int]]:
    """What libjpeg makes of a table at a quality of 1 to 100.

    >>> steps_at(LUMA_STEPS, 75)[0]
    [8, 6, 5, 8, 12, 20, 26, 31]
    """
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return [[min(max((step * percent + 50) // 100, 1), 255) for step in row] for row in table]
