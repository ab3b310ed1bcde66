"""Check arguments in named axes; a mismatch is a sentence that says how to mend it.

The sentence names the function, the argument, the expected shape in symbols and in numbers, and
what came instead: `rms_norm: weight must be [D] = [5120], got [4096]; ...`.
"""

from collections.abc import Sequence

import torch


class Axes:
    """Bind axis letters to numbers for one call of one function.

    A letter takes its number from the first tensor that shows it; later tensors must agree. A
    number in the place of a letter is itself: `("2", "32", "C")` asks for 2 and 32.
    """

    def __init__(self, function: str) -> None:
        """Start with no letter bound.

        Args:
            function: public name that opens every message.
        """
        self._function = function
        self._size: dict[str, int] = {}

    def __getitem__(self, letter: str) -> int:
        """Return the number bound to a letter."""
        return self._size[letter]

    def tensor(
        self,
        name: str,
        tensor: torch.Tensor,
        axes: Sequence[str],
        dtypes: Sequence[torch.dtype],
        mend: str,
    ) -> None:
        """Check a tensor's shape, dtype and last stride, and bind the letters it is first to show.

        Args:
            name: the argument's name.
            tensor: what the caller passed.
            axes: expected letters or numbers, outermost first.
            dtypes: dtypes the function takes.
            mend: what the caller can do about a mismatch, as a clause without a full stop.

        Raises:
            ValueError: the shape disagrees, or the last axis is not contiguous.
            TypeError: the dtype is none of `dtypes`.
        """
        shape, size_of = tensor.shape, self._size
        # no text before a mismatch: a token of a small model passes two hundred of these checks
        if tensor.dtype not in dtypes:
            wanted = " or ".join(_dtype_name(dtype) for dtype in dtypes)
            raise TypeError(
                f"{self._function}: {name} must be {wanted} {_symbols(axes)}, "
                f"got {_dtype_name(tensor.dtype)}; {mend}"
            )
        agrees = len(shape) == len(axes)
        for axis, size in zip(axes, shape, strict=False):
            want = int(axis) if axis.isdigit() else size_of.get(axis, size)
            agrees = agrees and want == size
        if not agrees:
            numbers = ", ".join(
                one if one.isdigit() else str(size_of.get(one, "any")) for one in axes
            )
            raise ValueError(
                f"{self._function}: {name} must be {_symbols(axes)} = [{numbers}], "
                f"got {list(shape)}; {mend}"
            )
        if shape[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(
                f"{self._function}: {name} {_symbols(axes)} must have stride 1 along {axes[-1]}, "
                f"got strides {list(tensor.stride())}; call .contiguous() first"
            )
        size_of.update(zip(axes, shape, strict=True))

    def same_device(self, **arguments: torch.Tensor | None) -> None:
        """Check that all tensors live on one device; what was not given is None.

        Raises:
            ValueError: two devices occur; the message lists where each argument lives.
        """
        tensors = {name: one for name, one in arguments.items() if one is not None}
        if len({one.device for one in tensors.values()}) > 1:
            places = ", ".join(f"{name} on {one.device}" for name, one in tensors.items())
            raise ValueError(
                f"{self._function}: all tensors must be on one device, got {places}; "
                "move them to the device of the first"
            )

    def aligned(self, num_bytes: int, **arguments: torch.Tensor) -> None:
        """Check that tensors of a GPU begin where it can load so many bytes at a time.

        Raises:
            ValueError: one does not; a load from there would end the process's use of the GPU.
        """
        for name, one in arguments.items():
            if one.is_cuda and one.data_ptr() % num_bytes:
                raise ValueError(
                    f"{self._function}: {name} starts at {one.data_ptr():#x}, expected a multiple "
                    f"of {num_bytes} bytes; pass a whole tensor, or a part that starts at a head"
                )


def _symbols(axes: Sequence[str]) -> str:
    return "[" + ", ".join(axes) + "]"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
