"""Which matrices read the same rows, so that one product may read them together; names only."""

GROUPS = (
    ("mlp.gate_proj.weight", "mlp.up_proj.weight"),
    ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    ("linear_attn.in_proj_qkv.weight", "linear_attn.in_proj_z.weight"),
    ("linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"),
)
"""Names within a layer, in the order that they are joined in."""

MTP_GROUPS = (GROUPS[0], ("self_attn.k_proj.weight", "self_attn.v_proj.weight"))
"""In the MTP head: it fills keys and values of committed rows without their queries."""


def group_of(name: str) -> tuple[str, ...]:
    """The canonical names of a matrix's group in order; its own alone where it has none."""
    for group in MTP_GROUPS if name.startswith("mtp.") else GROUPS:
        for member in group:
            if name.endswith(f".{member}"):
                prefix = name.removesuffix(member)
                return tuple(prefix + one for one in group)
    return (name,)
