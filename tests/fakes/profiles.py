"""A menu of profiles whose engines are scripted: what each costs, and how its load goes."""

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.opening import Plan
from app.profile_menu import FaultyProfile, Switch
from engine.errors import CheckpointError
from engine.expected import Expected
from engine.fit import Need
from engine.locate import Choice
from engine.model.config import SHAPE_27B
from engine.offer import Offer
from engine.profile import load_profiles
from engine.settings.load import load_settings
from engine.types import LoadProgressed
from tests.fakes.engine import INFO, Script, ScriptedEngine

GB = 10**9
FILE = "model-00001-of-00004.safetensors"


@dataclass
class Load:
    """How a profile's load goes; without ``waits`` it is there at once."""

    waits: bool = False
    fails: str = ""
    script: Script = field(default_factory=Script)
    model: str = "Qwen3.8-27B"
    go: threading.Event = field(default_factory=threading.Event)
    begun: int = 0
    engines: list[ScriptedEngine] = field(default_factory=list)
    ahead: dict = field(default_factory=dict)
    """How its engine reads a conversation ahead: fields of `ScriptedEngine`."""


@dataclass
class FakeMenu:
    """Stands for `app.profile_menu.ProfileMenu`; ``loads`` says what is on this machine."""

    loads: dict[str, Load]
    beside: bool = True
    broken: dict[str, str] = field(default_factory=dict)
    """Why the file of a profile does not read, by name."""
    asked: list[str] = field(default_factory=list)

    def offers(self, info):
        profiles = load_profiles()
        sizes = {"nvfp4": 18, "balanced": 21, "fp8": 30, "bf16": 55}
        return [
            Offer(profiles[name], expected(name, size, is_here=name in self.loads))
            for name, size in sizes.items()
        ]

    def faulty(self):
        return [FaultyProfile(name, problem) for name, problem in self.broken.items()]

    def switch(self, name, info):
        self.asked.append(name)
        if name not in self.loads:
            raise CheckpointError(f"The profile '{name}' cannot be opened.", "Download it.")
        profile = load_profiles()[name]
        settings, sources = load_settings(profile=profile.settings)
        plan = FakePlan(settings, sources, Choice(Path("/nowhere"), profile, is_demo=False))
        object.__setattr__(plan, "opener", self.opener(name))
        return Switch(plan, self.beside)

    def opener(self, name):
        load = self.loads[name]
        info = replace(INFO, profile=name, is_demo=False, model=load.model)

        def open_it(on_progress, cancel):
            load.begun += 1
            on_progress(LoadProgressed(FILE, 6 * GB, 18 * GB, 2.5))
            while load.waits and not load.go.is_set() and not cancel.is_set():
                load.go.wait(0.005)
            if load.fails:
                raise CheckpointError(load.fails, "Download it again.")
            engine = ScriptedEngine([load.script], info, **load.ahead)
            load.engines.append(engine)
            return engine

        return open_it


@dataclass(frozen=True)
class FakePlan(Plan):
    """A plan whose engine is scripted."""

    opener = None

    def open(self, on_progress, cancel):
        return self.opener(on_progress, cancel)


def expected(name, size, *, is_here):
    path = Path(f"/models/{name}") if is_here else None
    num_bytes = size * GB
    need = Need(
        name, path, None, SHAPE_27B, 32768, num_bytes, num_bytes, 2 * GB, num_bytes, GB // 2
    )
    state = "ready" if is_here else "missing"
    moved = num_bytes - GB
    return Expected(need, state, 96 * GB, 235.0, moved, 1024, 235e9 / moved)
