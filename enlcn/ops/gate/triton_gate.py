"""The gate of gated blocks on matrix units: each output row sums K rows of windows times banded matrices of weights.

A window of WINDOW numbers of one line holds all that TILE neighbouring outputs hear of it, so that one row of a
kernel is a (WINDOW, TILE) matrix with its K weights along diagonals. Sixteen windows, of whatever images, strips and
columns, are one operand; a program is a single warp that walks down their strips with K sums of outputs in registers,
and no window is read from another line twice.

Axes: B batch, J channels, H rows, W columns, K side of the kernel, P = 16 places (windows) of a program.
"""

# Triton joins tuples but unpacks none.
# ruff: noqa: RUF005
# mypy: disable-error-code="import-untyped,import-not-found,no-untyped-def,assignment,var-annotated"
import triton
import triton.language as tl

PLACES = tl.constexpr(16)
TILE = tl.constexpr(8)
WINDOW = tl.constexpr(16)
MARGIN = tl.constexpr(4)  # columns of a window before its tile: from a multiple of four on, lanes load four at once


@triton.jit
def replaced(values, index: tl.constexpr, value):
    """The tuple with another value at one index."""
    return values[:index] + (value,) + values[index + 1 :]


@triton.jit
def places(num_places, tiles, strips, strip_rows):
    """Image, first row and first column of a program's places, and whether there is one, (P, 1) each."""
    place = tl.program_id(0) * PLACES + tl.arange(0, PLACES)[:, None]
    strip = place // tiles
    return strip // strips, strip % strips * strip_rows, place % tiles * TILE, place < num_places


@triton.jit
def grouped(windows):
    """(P, WINDOW) with the columns in the order 0 1 4 5 8 9 12 13 2 3 6 7 ...: what a lane loads, it multiplies."""
    return windows.reshape(PLACES, 4, 2, 2).permute(0, 2, 1, 3).reshape(PLACES, WINDOW)


@triton.jit
def band(weight_ptr, row, K: tl.constexpr, TURNED: tl.constexpr):
    """One row of a channel's kernel as a (WINDOW, TILE) matrix, rows in the order of `grouped`."""
    index = tl.arange(0, WINDOW)[:, None]
    column = index % 8 // 2 * 4 + index // 8 * 2 + index % 2
    tap = column - tl.arange(0, TILE)[None, :] - (MARGIN - K // 2)
    place = row * K + tap
    if TURNED:
        place = K * K - 1 - place
    return tl.load(weight_ptr + place, mask=(tap >= 0) & (tap < K), other=0.0)


@triton.jit
def spread_kernel(
    heard_ptr,
    weight_ptr,
    bias_ptr,
    said_ptr,
    offset_ptr,
    gate_ptr,
    out_ptr,
    num_places,
    tiles,
    strips,
    strip_rows,
    height,
    width,
    in_channel,  # strides: heard and said are channels of one tensor
    in_image,
    out_channel,
    out_image,
    K: tl.constexpr,
    TURNED: tl.constexpr,
    GATES: tl.constexpr,  # else nothing is added nor multiplied: out is what was spread
    KEEPS: tl.constexpr,  # the gate
    OPERANDS: tl.constexpr,  # the type of what is multiplied
):
    """Program (i, j): the i-th P places, channel j. weight is (J, K K); lines lie in one piece."""
    image, top, left, known = places(num_places, tiles, strips, strip_rows)
    bottom = tl.minimum(top + strip_rows, height)
    channel = tl.program_id(1).to(tl.int64)
    x = left - MARGIN + tl.arange(0, WINDOW)[None, :]
    heard_ptr += channel * in_channel + image.to(tl.int64) * in_image + (top - K // 2) * width + x
    heard_there = known & (x >= 0) & (x < width)
    x = left + tl.arange(0, TILE)[None, :]
    ours = channel * out_channel + image.to(tl.int64) * out_image + (top - K + 1) * width + x
    said_ptr += channel * in_channel + image.to(tl.int64) * in_image + (top - K + 1) * width + x
    there = known & (x < width)
    bands = ()
    sums = ()
    for row in tl.static_range(K):
        bands = bands + (band(weight_ptr + channel * K * K, row, K, TURNED).to(OPERANDS),)
        sums = sums + (tl.zeros((PLACES, TILE), tl.float32),)
    bias = 0.0
    offset = 0.0
    if GATES:
        bias = tl.load(bias_ptr + channel).to(tl.float32)
        offset = tl.load(offset_ptr + channel).to(tl.float32)
    for base in range(0, strip_rows + K - 1, K):
        # All loads before the first store, behind which none could be moved.
        windows = ()
        said = ()
        for step in tl.static_range(K):
            y = top + base + step - K // 2
            line = tl.load(heard_ptr + (base + step) * width, mask=heard_there & (y >= 0) & (y < height), other=0.0)
            windows = windows + (line,)
            if GATES:
                y = top + base + step - K + 1
                inside = there & (y >= top) & (y < bottom)
                said = said + (tl.load(said_ptr + (base + step) * width, mask=inside, other=0.0),)
        for step in tl.static_range(K):
            window = grouped(windows[step]).to(OPERANDS)
            for row in tl.static_range(K):
                of_output = tl.dot(window, bands[row], sums[(step - row + K) % K], input_precision="tf32x3")
                sums = replaced(sums, (step - row + K) % K, of_output)
            y = top + base + step - K + 1
            inside = there & (y >= top) & (y < bottom)
            out = sums[(step + 1) % K]
            if GATES:
                out += bias
                if KEEPS:
                    tl.store(gate_ptr + ours + (base + step) * width, out.to(gate_ptr.dtype.element_ty), mask=inside)
                out *= said[step].to(tl.float32) + offset
            tl.store(out_ptr + ours + (base + step) * width, out.to(out_ptr.dtype.element_ty), mask=inside)
            sums = replaced(sums, (step + 1) % K, tl.zeros((PLACES, TILE), tl.float32))


@triton.jit
def weight_gradient_kernel(
    gradient_ptr,  # of the product
    gate_ptr,
    said_ptr,
    offset_ptr,
    heard_ptr,
    said_back_ptr,
    gate_back_ptr,
    sums_ptr,
    num_places,
    tiles,
    strips,
    strip_rows,
    height,
    width,
    in_channel,
    in_image,
    out_channel,
    out_image,
    J,
    K: tl.constexpr,
    OPERANDS: tl.constexpr,
):
    """Program (i, j): the i-th P places, channel j. Gradients of said and of the gate are written on the way.

    To sums (I, J, K WINDOW + 2, TILE), for each row of the kernel, each column of a window and each output in a tile,
    what their products amount to, of which the weights' gradients are the diagonals; then the sums over both of the
    gradients written.
    """
    image, top, left, known = places(num_places, tiles, strips, strip_rows)
    bottom = tl.minimum(top + strip_rows, height)
    channel = tl.program_id(1).to(tl.int64)
    x = left - MARGIN + tl.arange(0, WINDOW)[None, :]
    theirs = channel * in_channel + image.to(tl.int64) * in_image + top * width
    heard_ptr += theirs - K // 2 * width + x
    heard_there = known & (x >= 0) & (x < width)
    x = left + tl.arange(0, TILE)[None, :]
    theirs += x
    ours = channel * out_channel + image.to(tl.int64) * out_image + top * width + x
    there = known & (x < width)
    offset = tl.load(offset_ptr + channel).to(tl.float32)
    of_offset = tl.zeros((PLACES, TILE), tl.float32)
    of_bias = tl.zeros((PLACES, TILE), tl.float32)
    given = ()
    sums = ()
    for _row in tl.static_range(K):
        given = given + (tl.zeros((PLACES, TILE), OPERANDS),)
        sums = sums + (tl.zeros((WINDOW, TILE), tl.float32),)
    for base in range(0, strip_rows + K - 1, K):
        windows = ()
        gradients = ()
        gates = ()
        said = ()
        for step in tl.static_range(K):
            y = top + base + step - K // 2
            line = tl.load(heard_ptr + (base + step) * width, mask=heard_there & (y >= 0) & (y < height), other=0.0)
            windows = windows + (line,)
            inside = there & (top + base + step < bottom)
            gradients = gradients + (tl.load(gradient_ptr + ours + (base + step) * width, mask=inside, other=0.0),)
            gates = gates + (tl.load(gate_ptr + ours + (base + step) * width, mask=inside, other=0.0),)
            said = said + (tl.load(said_ptr + theirs + (base + step) * width, mask=inside, other=0.0),)
        for step in tl.static_range(K):
            inside = there & (top + base + step < bottom)
            gradient = gradients[step].to(tl.float32)
            said_back = gradient * gates[step].to(tl.float32)
            gate_back = gradient * (said[step].to(tl.float32) + offset)
            of_offset += said_back
            of_bias += gate_back
            tl.store(
                said_back_ptr + theirs + (base + step) * width,
                said_back.to(said_back_ptr.dtype.element_ty),
                mask=inside,
            )
            gate_back = gate_back.to(gate_back_ptr.dtype.element_ty)
            tl.store(gate_back_ptr + ours + (base + step) * width, gate_back, mask=inside)
            given = replaced(given, step, gate_back.to(OPERANDS))
            window = tl.trans(windows[step]).to(OPERANDS)
            for row in tl.static_range(K):
                back = given[(step - row + K) % K]
                sums = replaced(sums, row, tl.dot(window, back, sums[row], input_precision="tf32x3"))
    sums_ptr += (tl.program_id(0).to(tl.int64) * J + channel) * (K * WINDOW + 2) * TILE
    outputs = tl.arange(0, TILE)
    inner = tl.arange(0, WINDOW)[:, None] * TILE + outputs[None, :]
    for row in tl.static_range(K):
        tl.store(sums_ptr + row * WINDOW * TILE + inner, sums[row])
    tl.store(sums_ptr + K * WINDOW * TILE + outputs, tl.sum(of_offset, axis=0))
    tl.store(sums_ptr + (K * WINDOW + 1) * TILE + outputs, tl.sum(of_bias, axis=0))


@triton.jit
def add_up_kernel(
    sums_ptr,
    of_weight_ptr,
    of_shifts_ptr,
    parts,
    J,
    K: tl.constexpr,
):
    """Program (j, i), i < K: the gradients of row i of channel j's kernel; i = K: of its offset and bias.

    What `weight_gradient_kernel` left in sums (I, J, K WINDOW + 2, TILE), added up: weights are diagonals.
    """
    channel, row = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = tl.arange(0, WINDOW)[:, None]
    outputs = tl.arange(0, TILE)[None, :]
    size = (K * WINDOW + 2) * TILE
    place = (row * WINDOW + columns) * TILE + outputs
    sums_ptr += channel * size + place
    total = tl.zeros((WINDOW, TILE), tl.float32)
    for _part in range(parts):
        total += tl.load(sums_ptr, mask=place < size, other=0.0)
        sums_ptr += J * size
    if row < K:
        for tap in tl.static_range(K):
            diagonal = tl.where(columns - outputs == tap + MARGIN - K // 2, total, 0.0)
            tl.store(of_weight_ptr + (channel * K + row) * K + tap, tl.sum(diagonal))
    else:
        for shift in tl.static_range(2):
            tl.store(of_shifts_ptr + channel * 2 + shift, tl.sum(tl.where(columns == shift, total, 0.0)))
