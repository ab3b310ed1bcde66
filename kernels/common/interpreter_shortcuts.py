"""Spare Triton's interpreter what it does over and over; no value and no refusal changes.

It patches `triton.language` again at every call of a device function, adds integers twice to look
for an overflow that it tells a debugger alone, and works out types and shapes anew at every step.
That was three quarters of the time of a small kernel.
"""
# ruff: noqa: ANN401, SLF001  the interpreter's internals are private and untyped

import dataclasses
from collections.abc import Callable
from typing import Any

import triton.language as tl
from triton.language import core
from triton.runtime import interpreter

_patched: list[Any] = []
"""Language modules that the present launch has patched."""


def apply() -> None:
    """Take the shortcuts in this process."""
    executor: Any = interpreter.GridExecutor
    executor.__call__ = _patching_anew(executor.__call__)
    interpreter._patch_lang = _once_a_launch(interpreter._patch_lang)
    builder: Any = interpreter.interpreter_builder
    builder.options = dataclasses.replace(builder.options, sanitize_overflow=builder.options.debug)
    interpreter._get_np_dtype = _once_a_scalar(interpreter._get_np_dtype)
    core.block_type.__init__ = _once_a_block(core.block_type.__init__)
    core.tensor.__init__ = _once_a_shape(core.tensor.__init__)


def _patching_anew(launch: Callable[..., Any]) -> Callable[..., Any]:
    """A launch takes its patches back at its end."""

    def launched(self: Any, *arguments: Any, **named: Any) -> Any:
        _patched.clear()
        try:
            return launch(self, *arguments, **named)
        finally:
            _patched.clear()

    return launched


def _once_a_launch(patch: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Patch for a function what no function of the launch has had patched."""

    def patched(function: Any) -> Any:
        known = set(map(id, function.__globals__.values()))
        seen = [module for module in (tl, tl.core) if id(module) in known]
        if seen and all(module in _patched for module in seen):
            return None
        _patched.extend(seen)
        return patch(function)

    return patched


def _once_a_scalar(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Find numpy's dtype of a scalar type once; a block has that of its elements."""
    found: dict[str, Any] = {}

    def kept(dtype: Any) -> Any:
        scalar = dtype.scalar
        if scalar.name not in found:
            found[scalar.name] = find(scalar)
        return found[scalar.name]

    return kept


def _once_a_block(make: Callable[..., None]) -> Callable[..., None]:
    """Check and name a shape of a scalar type once."""
    made: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = (one.value if isinstance(one, core.constexpr) else one for one in shape)
        key = (element_ty.name, *sizes)
        if key not in made:
            make(self, element_ty, shape)
            made[key] = self.shape, self.numel, self.name
        self.element_ty = element_ty
        self.shape, self.numel, self.name = made[key]

    return init


def _once_a_shape(make: Callable[..., None]) -> Callable[..., None]:
    """Wrap the sizes of a type once; its name says them."""
    made: dict[str, tuple[Any, Any]] = {}

    def init(self: Any, handle: Any, type: Any) -> None:  # noqa: A002  Triton calls it so
        if type.name not in made:
            make(self, handle, type)
            made[type.name] = self.shape, self.numel
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = made[type.name]

    return init
