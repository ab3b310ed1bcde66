"""What tests of a turn share; a module that wants another model makes its own.

The model is small and real, on the path of a GPU: here by the kernels' references, where a launch
computes at once, and on a GPU by captured graphs.
"""

from dataclasses import replace

import pytest
import torch

from engine.turn.rows_verify import RowsVerifier
from tests.fakes.model import local_engine, run, write_text_files
from tests.fakes.rounds import SAMPLINGS, requested, small_model

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tokenizer and a template."""
    return write_text_files(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module", params=DEVICES)
def model(request):
    return small_model(request.param)


@pytest.fixture(scope="module")
def verifier(model):
    """One for all: on a GPU its graphs are captured once."""
    return RowsVerifier(model)


@pytest.fixture(scope="module")
def open_engine(model, verifier, folder):
    def opened(by=verifier):
        return local_engine(model, folder, verifier=by, max_context_tokens=512)

    return opened


@pytest.fixture(scope="module")
def walked(open_engine):
    """An answer without drafts, row by row."""
    sampling = replace(SAMPLINGS["penalised"], presence_penalty=-2.0, logit_bias=())
    return run(open_engine(None), requested(sampling=sampling, max_tokens=32))[-1].record, sampling
