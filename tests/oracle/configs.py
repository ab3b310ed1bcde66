"""The tiny models of the oracle: head ratios, tied and split embeddings, ragged sizes."""

CONFIGS = {
    "three values a key": {
        "make": {
            "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "vocab_size": 160,
            "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 32,
            "linear_num_key_heads": 2, "linear_num_value_heads": 6,
            "linear_key_head_dim": 16, "linear_value_head_dim": 16,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                                "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
                                "mrope_interleaved": True},
        },
        "num_prompt": 150, "max_shard_size": "1GB", "as_full_release": True, "fp32_small": False,
        "mtp": True,
    },
    "as many values as keys, tied, ragged": {
        "make": {
            "hidden_size": 72, "intermediate_size": 200, "num_hidden_layers": 4, "vocab_size": 131,
            "num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": 40,
            "linear_num_key_heads": 3, "linear_num_value_heads": 3,
            "linear_key_head_dim": 24, "linear_value_head_dim": 20, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6,
                                "partial_rotary_factor": 0.5, "mrope_section": [4, 3, 3],
                                "mrope_interleaved": True},
        },
        "num_prompt": 193, "max_shard_size": "100KB", "as_full_release": False, "fp32_small": False,
    },
    "one KV head, fp32 vectors": {
        "make": {
            "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 5, "vocab_size": 512,
            "num_attention_heads": 6, "num_key_value_heads": 1, "head_dim": 64,
            "linear_num_key_heads": 1, "linear_num_value_heads": 2,
            "linear_key_head_dim": 64, "linear_value_head_dim": 64,
            "layer_types": ["full_attention", "linear_attention", "linear_attention",
                            "full_attention", "linear_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e7,
                                "partial_rotary_factor": 0.25, "mrope_section": [3, 3, 2],
                                "mrope_interleaved": True},
        },
        "num_prompt": 64, "max_shard_size": "1GB", "as_full_release": False, "fp32_small": True,
    },
}  # fmt: skip
