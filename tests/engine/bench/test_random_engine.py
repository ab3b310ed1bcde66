from engine.bench.random_engine import random_engine
from engine.profile import get_profile, load_profiles
from engine.settings.declared import ModelSettings, Settings

PROFILE = get_profile("nvfp4", load_profiles())


def test_keys_and_values_are_held_as_the_settings_say():
    bytes_a_token, planned = {}, {}
    for kv in ("bf16", "fp8"):
        settings = Settings(model=ModelSettings(device="cpu", context_tokens=512, kv=kv))
        engine, plan = random_engine("demo", PROFILE, settings)
        bytes_a_token[kv], planned[kv] = engine.info.kv_bytes_per_token, plan.kept["context"]
        engine.close()
    assert bytes_a_token["fp8"] * 2 == bytes_a_token["bf16"]
    assert planned["fp8"] < planned["bf16"]
