"""Profiles are data: unknown keys and values are refused with the nearest name."""

import os
import re
from pathlib import Path

import pytest

from engine.errors import ProfileError
from engine.graph_classes import GraphClasses
from engine.profile import get_profile, load_profiles, read_profile
from engine.settings.declared import KNOWN
from engine.settings.registry import parse

GOOD = """
title = "Mine"
about = "A profile of my own."
[weights]
repositories = ["a/b"]
[formats]
mlp = "bf16"
attention = "bf16"
delta = "bf16"
head = "bf16"
mtp = "bf16"
[kv]
format = "bf16"
[drafting]
drafter = "mtp"
max_tokens = 3
"""


def test_the_shipped_profiles_read():
    profiles = load_profiles()
    assert {"demo", "fp8", "bf16"} <= set(profiles)
    assert profiles["demo"].embedded == "demo"


def test_the_settings_a_shipped_profile_declares_exist_and_read():
    for profile in load_profiles().values():
        for name, value in (profile.settings or {}).items():
            parse(KNOWN[name], value, profile.path)


def test_a_profile_of_ones_own_is_found(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.toml").write_text(GOOD)
    assert load_profiles(tmp_path)["mine"].repositories == ("a/b",)


def test_a_profile_says_what_is_captured_while_it_opens(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert read_profile(path).graphs == GraphClasses()
    path.write_text(f"{GOOD}\n[graphs]\nrows = [1, 4]\ncontext_tokens = []\n")
    assert read_profile(path).graphs == GraphClasses((1, 4), ())
    assert all("[graphs]" in Path(one.path).read_text() for one in load_profiles().values())


def test_what_an_editor_leaves_beside_a_profile_is_none(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / ".#mine.toml").symlink_to("person@machine.123")
    (tmp_path / "profiles" / "._mine.toml").write_bytes(b"\xff")
    assert load_profiles(tmp_path).keys() == load_profiles().keys()


def test_a_file_that_does_not_read_stops_its_own_profile_only(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "bad.toml").write_text(GOOD.replace("max_tokens", "max_tokenz"))
    (tmp_path / "profiles" / "mine.toml").write_text(GOOD)
    profiles = load_profiles(tmp_path)
    assert set(profiles) == {*load_profiles(), "mine"}
    (notice,) = profiles.notices
    assert re.match(r"A profile is left out\. .*bad\.toml: .*Did you mean", notice)
    assert get_profile("mine", profiles).title == "Mine"
    with pytest.raises(ProfileError, match=r"bad\.toml: there is no key 'drafting\.max_tokenz'"):
        get_profile("bad", profiles)


def test_a_profile_of_a_shipped_ones_name_is_left_out_and_whoever_names_it_is_told(tmp_path):
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "fp8.toml").write_text(GOOD)
    profiles = load_profiles(tmp_path)
    assert profiles["fp8"] == load_profiles()["fp8"]
    with pytest.raises(ProfileError, match=r"'fp8' stands in .* and in .*Rename one of them\."):
        get_profile("fp8", profiles)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('mlp = "bf16"', 'mlp = "bf61"', "formats.mlp.*'bf61'.*Did you mean 'bf16'"),
        ('mlp = "bf16"', 'mlpp = "bf16"', "no key 'formats.mlpp'.*Did you mean 'mlp'"),
        ("max_tokens = 3", "max_tokens = 99", "drafting.max_tokens.*99.*0 to 31"),
        ('title = "Mine"', "title = 3", "'title' is 3"),
        ('["a/b"]', "[1]", "'weights.repositories' is .1., expected a list of texts"),
        ("[kv]", "[vk]", "no key 'vk'.*'kv'"),
        ('[kv]\nformat = "bf16"', '[kv]\nformat = "fp88"', "'kv.format' is 'fp88'.*'fp8'"),
        ('title = "Mine"', "title = ", "does not read"),
        ('repositories = ["a/b"]', "embedded = 3", "weights.embedded.*3"),
        ('repositories = ["a/b"]', 'embedded = "nope"', "'nope', expected the name of a folder"),
        ('repositories = ["a/b"]', 'embedded = "../x"', "weights.embedded.*beside the profiles"),
        ('title = "Mine"', f"title = {'9' * 5000}", "does not read.*Mend it"),
        ('title = "Mine"', f"title = {'[' * 5000}", "nested too deep"),
        ("[kv]", "[settings.draft]\ndrafterr = 1\n[kv]", "'draft.drafterr'.*'draft.drafter'"),
        ("[kv]", "[settings.draft]\ntokens = 99\n[kv]", "'draft.tokens' is 99"),
        ("[kv]", "[settings.model]\ndir = '/x'\n[kv]", "'model.dir' is '/x'.*'weights.folder'"),
        ("[kv]", "[graphs]\nrow = [1]\n[kv]", "no key 'graphs.row'.*Did you mean 'rows'"),
        ("[kv]", "[graphs]\nrows = [1, 33]\n[kv]", "'graphs.rows' is .1, 33.*mean 32"),
        ("[kv]", "[graphs]\nrows = [0]\n[kv]", "'graphs.rows'.*among 1, 2 ... 32.*mean 1"),
        ("[kv]", "[graphs]\nrows = [4, 2]\n[kv]", "'graphs.rows'.*rising"),
        ("[kv]", "[graphs]\nrows = [2, 2]\n[kv]", "'graphs.rows'.*rising"),
        ("[kv]", "[graphs]\nrows = 4\n[kv]", "'graphs.rows' is 4, expected a list"),
        ("[kv]", "[graphs]\nrows = '4'\n[kv]", "'graphs.rows' is '4', expected a list"),
        ("[kv]", "[graphs]\nrows = [true]\n[kv]", "'graphs.rows'.*numbers among"),
        ("[kv]", "[graphs]\ncontext_tokens = [3000]\n[kv]", "'graphs.context_tokens'.*mean 2048"),
        ("[kv]", "[graphs]\nchunk_rows = [100]\n[kv]", "'graphs.chunk_rows'.*mean 128"),
        ('title = "Mine"', 'graphs = [1]\ntitle = "Mine"', r"a table \[graphs\]"),
        ("[kv]", "[settings]\nseed = 1\n[kv]", r"settings.seed.*a table \[settings.seed\]"),
    ],
)
def test_a_wrong_key_or_value_is_named(tmp_path, old, new, said):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(ProfileError, match=said) as refused:
        read_profile(path)
    assert str(path) in str(refused.value)


def test_a_pipe_among_the_profiles_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "mine.toml")
    with pytest.raises(ProfileError, match=r"mine\.toml is no plain file"):
        read_profile(tmp_path / "mine.toml")


def test_an_unknown_profile_is_refused_with_the_nearest_name():
    with pytest.raises(ProfileError, match="Did you mean 'demo'"):
        get_profile("dmeo", load_profiles())
