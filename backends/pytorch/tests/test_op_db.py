"""PyTorch's own samples: of operators that no other test here has, of some modules and optimizers. All of them: python
op_db.py, module_db.py, optim_db.py."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest

ENTRIES = {
    "operators": """
    addbmm aminmax angle nn.functional.channel_shuffle corrcoef count_nonzero cov cummax cummin equal i0
    index_reduce.mean index_reduce.prod index_reduce.amin index_reduce.amax nan_to_num nanmean nansum
    nn.functional.glu nn.functional.prelu nn.functional.rrelu
    polygamma.polygamma_n_0 polygamma.polygamma_n_3 renorm round.decimals_3 round.decimals_neg_3 special.i0e special.i1
    special.i1e special.zeta special.spherical_bessel_j0 special.modified_bessel_i1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_w special.hermite_polynomial_he special.laguerre_polynomial_l
    special.legendre_polynomial_p special.shifted_chebyshev_polynomial_v unfold
    """,
    "modules": """
    nn.BatchNorm1d nn.LazyConv1d nn.Linear nn.Bilinear nn.LSTMCell nn.GRU nn.Embedding nn.InstanceNorm1d nn.LPPool1d nn.GLU
    """,
    "optimizers": "Adafactor ASGD LBFGS Muon SGD",
    "empty": """
    all any cdist dot mean mv nansum nn.functional.group_norm nn.functional.layer_norm
    nn.functional.multilabel_margin_loss nn.functional.nll_loss nn.functional.cross_entropy
    norm prod std sum var
    """,
    "strides": """
    add bmm cat clone cumsum index_select mean nn.functional.batch_norm nn.functional.conv2d nn.functional.layer_norm
    nn.functional.linear nn.functional.scaled_dot_product_attention softmax sort sum where
    """,
}
PROGRAMS = {"operators": "op_db.py", "modules": "module_db.py", "optimizers": "optim_db.py", "empty": "empty_db.py",
            "strides": "strides_db.py"}


@pytest.mark.skipif(not importlib.util.find_spec("expecttest"), reason="PyTorch's lists ask for the package expecttest")
@pytest.mark.parametrize("database", ENTRIES)
def test_samples(database):
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAMS[database])
    entries = ENTRIES[database].split()
    done = subprocess.run([sys.executable, program, *entries], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"{len(entries)} of {len(entries)} \w+ pass", done.stdout), done.stdout
