"""PyTorch's own samples of operators that no other test here has. All of them: python op_db.py."""

import os
import subprocess
import sys

OPERATORS = """
    addbmm aminmax angle nn.functional.channel_shuffle corrcoef count_nonzero cov cummax cummin equal i0
    index_reduce.mean index_reduce.prod index_reduce.amin index_reduce.amax nan_to_num nanmean nansum
    nn.functional.glu nn.functional.prelu nn.functional.rrelu
    polygamma.polygamma_n_0 polygamma.polygamma_n_3 renorm round.decimals_3 round.decimals_neg_3 special.i0e special.i1
    special.i1e special.zeta special.spherical_bessel_j0 special.modified_bessel_i1 special.chebyshev_polynomial_t
    special.chebyshev_polynomial_w special.hermite_polynomial_he special.laguerre_polynomial_l
    special.legendre_polynomial_p special.shifted_chebyshev_polynomial_v unfold
""".split()


def test_samples():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "op_db.py")
    done = subprocess.run([sys.executable, program, *OPERATORS], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(OPERATORS)} of {len(OPERATORS)} operators pass" in done.stdout, done.stdout
