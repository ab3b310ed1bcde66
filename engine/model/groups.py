"""Which matrices read the same rows, so that one product may read them together; names only."""

GROUPS = (
    ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    ("linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight"),
    ("linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"),
)
"""Names within a layer, in the order that they are joined in."""

DRAFT_GROUPS = (GROUPS[0], ("self_attn.k_proj.weight", "self_attn.v_proj.weight"))
"""In drafters with layers: they fill keys and values of committed rows without their queries."""

DRAFTER_PREFIX = "dflash."
"""Before the names of a DFlash2 drafter while it is packed: by themselves they are a model's."""


def group_of(name: str) -> tuple[str, ...]:
    """The canonical names of a matrix's group in order; its own alone where it has none."""
    drafts = name.startswith(("mtp.", DRAFTER_PREFIX))
    for group in DRAFT_GROUPS if drafts else GROUPS:
        for member in group:
            if name.endswith(f".{member}"):
                prefix = name.removesuffix(member)
                return tuple(prefix + one for one in group)
    return (name,)
