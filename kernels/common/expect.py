"""Check arguments in named axes; a mismatch is a sentence that says how to mend it.

The sentence names the function, the argument, the expected shape in symbols and in numbers, and
what came instead: `rms_norm: weight must be [D] = [5120], got [4096]; ...`.
"""

from collections.abc import Sequence

import torch


class Axes:
    """Bind axis letters to numbers for one call of one function.

    A letter takes its number from the first tensor that shows it; later tensors must agree.
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
            axes: expected letters, outermost first.
            dtypes: dtypes the function takes.
            mend: what the caller can do about a mismatch, as a clause without a full stop.

        Raises:
            ValueError: the shape disagrees, or the last axis is not contiguous.
            TypeError: the dtype is none of `dtypes`.
        """
        symbols = "[" + ", ".join(axes) + "]"
        if tensor.dtype not in dtypes:
            wanted = " or ".join(_dtype_name(dtype) for dtype in dtypes)
            raise TypeError(
                f"{self._function}: {name} must be {wanted} {symbols}, "
                f"got {_dtype_name(tensor.dtype)}; {mend}"
            )
        got = list(tensor.shape)
        expected = [self._size.get(letter) for letter in axes]
        agrees = len(got) == len(expected) and all(
            want is None or want == size for want, size in zip(expected, got, strict=True)
        )
        if not agrees:
            numbers = ", ".join("any" if want is None else str(want) for want in expected)
            raise ValueError(
                f"{self._function}: {name} must be {symbols} = [{numbers}], got {got}; {mend}"
            )
        if got[-1] > 1 and tensor.stride(-1) != 1:
            raise ValueError(
                f"{self._function}: {name} {symbols} must have stride 1 along {axes[-1]}, "
                f"got strides {list(tensor.stride())}; call .contiguous() first"
            )
        self._size.update(zip(axes, got, strict=True))

    def same_device(self, **tensors: torch.Tensor) -> None:
        """Check that all tensors live on one device.

        Raises:
            ValueError: two devices occur; the message lists where each argument lives.
        """
        if len({tensor.device for tensor in tensors.values()}) > 1:
            places = ", ".join(f"{name} on {tensor.device}" for name, tensor in tensors.items())
            raise ValueError(
                f"{self._function}: all tensors must be on one device, got {places}; "
                "move them to the device of the first"
            )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
