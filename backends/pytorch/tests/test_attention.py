"""scaled_dot_product_attention against the CPU's plain one."""

import copy
import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from compare import assert_same

F = torch.nn.functional
INF = float("inf")


def data(*shape, dtype=torch.float32, seed=0):
    torch.manual_seed(sum(shape) + seed)
    return torch.randn(shape).to(dtype)


def plain(q, k, v, mask=None, causal=False, scale=None):
    """In f64 on the CPU."""
    group = q.shape[1] // k.shape[1]
    k, v = (t.repeat_interleave(group, 1) for t in (k, v))
    s = q @ k.transpose(-1, -2) * (scale if scale is not None else 1 / math.sqrt(q.shape[-1]))
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -INF)
    if mask is not None:
        s = s.masked_fill(~mask, -INF) if mask.dtype == torch.bool else s + mask
    dead = (s == -INF).all(-1, keepdim=True)
    return torch.softmax(s.masked_fill(dead, 0), -1).masked_fill(dead, 0) @ v


def fused(q, k, v, mask=None, causal=False, scale=None, **more):
    with sdpa_kernel(SDPBackend.OVERRIDEABLE):
        return F.scaled_dot_product_attention(
            q, k, v, mask, is_causal=causal, scale=scale, enable_gqa=q.shape[1] != k.shape[1], **more)


def check(q, k, v, mask=None, causal=False, scale=None):
    tolerance = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[q.dtype]
    leaves = [q, k, v] + ([mask] if mask is not None and mask.is_floating_point() else [])
    wide = [t.detach().double().requires_grad_() for t in leaves]
    away = [t.detach().to("ocl").requires_grad_() for t in leaves]
    boolean = [] if mask is None or mask.is_floating_point() else [mask]
    expected = plain(*wide, *boolean, causal=causal, scale=scale)
    got = fused(*away, *[m.to("ocl") for m in boolean], causal=causal, scale=scale)
    assert_same(got, expected.to(q.dtype), tolerance, strides=False)
    seed = torch.randint(-3, 4, expected.shape).double()
    expected.backward(seed)
    got.backward(seed.to(q.dtype).to("ocl"))
    for w, a in zip(wide, away):
        size = max(1.0, w.grad.abs().max().item())
        assert_same(a.grad / size, (w.grad / size).to(a.dtype), 4 * tolerance, strides=False)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 7, 11, 5, 9), (1, 2, 13, 4, 64, 64), (1, 1, 1, 1, 1, 1)], ids=str)
def test_shapes(shape, causal):
    b, h, lq, lk, d, dv = shape
    check(data(b, h, lq, d), data(b, h, lk, d, seed=1), data(b, h, lk, dv), causal=causal)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    q, k, v = data(2, 2, 9, 16, dtype=dtype), data(2, 2, 12, 16, dtype=dtype), data(2, 2, 12, 8, dtype=dtype)
    check(q, k, v)
    check(q, k, v, data(2, 1, 9, 12, dtype=dtype))


@pytest.mark.parametrize("size", [(2, 4, 6, 10), (6, 10), (2, 1, 1, 10), (4, 1, 10), (1, 4, 6, 1), (1,)], ids=str)
def test_floating_masks(size):
    check(data(2, 4, 6, 8), data(2, 4, 10, 8), data(2, 4, 10, 8), data(*size, seed=3))


def test_boolean_masks():
    mask = torch.rand(2, 1, 6, 10) > 0.4
    mask[0, 0, 2] = False  # a query without a key
    check(data(2, 4, 6, 8), data(2, 4, 10, 8), data(2, 4, 10, 8), mask)
    check(data(2, 4, 6, 8), data(2, 2, 10, 8), data(2, 2, 10, 8), mask)  # and two heads for one


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (6, 3)], ids=str)
def test_grouped_heads(heads, causal):
    check(data(2, heads[0], 7, 8), data(2, heads[1], 9, 8), data(2, heads[1], 9, 4), causal=causal)


def test_grouped_heads_with_a_bias_for_each():
    check(data(2, 6, 7, 8), data(2, 2, 9, 8), data(2, 2, 9, 4), data(1, 6, 7, 9, seed=2))


def test_scale():
    check(data(1, 2, 5, 8), data(1, 2, 5, 8, seed=1), data(1, 2, 5, 8), scale=0.3)


def test_transposed_inputs():
    q, k, v = (data(2, 7, 3, 8, seed=i).transpose(1, 2) for i in range(3))
    check(q, k, v, causal=True)


@pytest.mark.parametrize("causal", [False, True])
def test_several_parts_of_rows(causal):
    check(data(1, 2, 1100, 8), data(1, 1, 700, 8), data(1, 1, 700, 8), causal=causal)


def test_no_large_scores():
    """64 heads of 2048 queries and keys: 1 GiB of scores, of which no more than a part is ever there."""
    q = torch.zeros(1, 64, 2048, 1, device="ocl", dtype=torch.float16)
    q[..., 0] = torch.arange(64, device="ocl").view(64, 1)
    torch.ocl.synchronize()
    torch.ocl.reset_peak_memory_stats()
    before = torch.ocl.memory_allocated()
    out = fused(q, torch.zeros_like(q), q)
    assert torch.ocl.max_memory_allocated() - before < 128 << 20
    assert torch.equal(out.cpu(), q.cpu())


def test_dropout():
    torch.manual_seed(5)
    q = data(2, 3, 40, 8).to("ocl").requires_grad_()
    v = torch.eye(50).expand(2, 3, 50, 50).to("ocl").requires_grad_()
    k = data(2, 3, 50, 8).to("ocl").requires_grad_()
    weights = fused(q, k, v, dropout_p=0.3)  # what is left of the weights
    whole = plain(q.cpu().double(), k.cpu().double(), v.cpu().double())
    kept = weights.cpu() != 0
    assert abs(kept.double().mean().item() - 0.7) < 0.02
    torch.testing.assert_close(weights.cpu().double(), whole * kept / 0.7, rtol=1e-4, atol=1e-5)
    seed = data(2, 3, 40, 50)
    got = torch.autograd.grad(weights, (q, k, v), seed.to("ocl"))
    leaves = [t.detach().cpu().double().requires_grad_() for t in (q, k, v)]
    s = torch.softmax(leaves[0] @ leaves[1].transpose(-1, -2) / math.sqrt(8), -1) * kept / 0.7
    expected = torch.autograd.grad(s @ leaves[2], leaves, seed.double())
    for g, e in zip(got, expected):
        assert_same(g, e.float(), 2e-5, strides=False)
    assert not torch.equal(fused(q, k, v, dropout_p=0.3).cpu(), weights.cpu())


def test_choice():
    def used(*arguments, **more):
        with torch.profiler.profile() as profile:
            F.scaled_dot_product_attention(*arguments, **more)
        return any("fused_attention_overrideable" in e.key for e in profile.key_averages())

    q = data(2, 2, 5, 8).to("ocl")
    assert used(q, q, q)
    batched = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14)  # PyTorch itself gives three dimensions a batch
    assert used(q[0], q[0], q[0]) == batched
    assert not used(q, q[:1], q[:1])
    with sdpa_kernel(SDPBackend.MATH):
        assert not used(q, q, q)
    empty = q[:, :, :0]
    assert F.scaled_dot_product_attention(empty, q, q).shape == (2, 2, 0, 8)
    with pytest.raises(RuntimeError):
        fused(q, q, q, mask=q[0, 0, :, :5].contiguous(), causal=True)


def test_multihead_attention_trains():
    torch.manual_seed(1)
    layer = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    away = torch.nn.MultiheadAttention(12, 3, batch_first=True)
    away.load_state_dict(layer.state_dict())
    away.to("ocl")
    x = data(2, 7, 12)
    y = layer(x, x, x, need_weights=False)[0]
    z = away(x.to("ocl"), x.to("ocl"), x.to("ocl"), need_weights=False)[0]
    assert_same(z, y, 1e-5, strides=False)
    y.square().sum().backward()
    z.square().sum().backward()
    for a, b in zip(layer.parameters(), away.parameters()):
        assert_same(b.grad, a.grad, 1e-4, strides=False)


def both(module, *arguments, **more):
    """In inference, here and there."""
    away = copy.deepcopy(module).to("ocl").eval()
    with torch.no_grad():
        expected = module.eval()(*arguments, **more)
        moved = {id(a): a.to("ocl") for a in arguments}  # what was one tensor stays one
        got = away(*[moved[id(a)] for a in arguments],
                   **{k: v.to("ocl") if isinstance(v, torch.Tensor) else v for k, v in more.items()})
    return expected, got


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_in_inference(norm_first):
    torch.manual_seed(2)
    layer = torch.nn.TransformerEncoderLayer(12, 4, 20, activation="gelu", batch_first=True, norm_first=norm_first)
    x, padding = data(3, 6, 12), torch.tensor([[False] * 6, [False] * 4 + [True] * 2, [False] * 5 + [True]])
    causal = torch.nn.Transformer.generate_square_subsequent_mask(6)
    for more in [{}, {"src_key_padding_mask": padding}, {"src_mask": causal},
                 {"src_mask": causal < 0, "src_key_padding_mask": padding}]:
        expected, got = both(layer, x, **more)
        assert_same(got, expected, 2e-5)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=True)
    expected, got = both(encoder, x, src_key_padding_mask=padding)
    assert_same(got.masked_fill(padding.to("ocl").unsqueeze(2), 0), expected.masked_fill(padding.unsqueeze(2), 0), 2e-5)


@pytest.mark.parametrize("average", [True, False])
def test_weights_in_inference(average):
    layer = torch.nn.MultiheadAttention(12, 4, batch_first=True)
    x = data(2, 5, 12)
    for others in [(x, x), (data(2, 7, 12), data(2, 7, 12, seed=1))]:
        expected, got = both(layer, x, *others, need_weights=True, average_attn_weights=average)
        for e, g in zip(expected, got):
            assert_same(g, e, 2e-5, strides=False)
