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
    assert_same(got, expected, 2e-5)
    if not norm_first:  # padded places are 0
        assert not got[1, 4:].any()
    encoder.norm = torch.nn.LayerNorm(12, bias=True)
    encoder.norm.bias.data.fill_(0.5)
    expected, got = both(encoder, x, src_key_padding_mask=padding)
    assert_same(got, expected, 2e-5)


@pytest.mark.parametrize("average", [True, False])
def test_weights_in_inference(average):
    layer = torch.nn.MultiheadAttention(12, 4, batch_first=True)
    x = data(2, 5, 12)
    for others in [(x, x), (data(2, 7, 12), data(2, 7, 12, seed=1))]:
        expected, got = both(layer, x, *others, need_weights=True, average_attn_weights=average)
        for e, g in zip(expected, got):
            assert_same(g, e, 2e-5, strides=False)


def softmaxed(q, k, v, mask=None):
    """In f64, by softmax of the scores that f32 has."""
    s = (q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])).float()
    s = s if mask is None else s + mask
    return torch.softmax(s.double(), -1) @ v.double()


@pytest.mark.parametrize("low", [-1e9, torch.finfo(torch.float32).min], ids=str)
@pytest.mark.parametrize("shape", [(2, 5), (1, 1, 2, 5), (3, 1, 2, 5), (3, 4, 2, 5)], ids=str)
def test_rows_masked_by_large_numbers(shape, low):
    """As masks of left-padded batches have them: every key counts as much, or as its score says."""
    q, k, v = data(3, 4, 2, 4), data(3, 4, 5, 4, seed=1), data(3, 4, 5, 4, seed=2)
    mask = torch.zeros(shape)
    mask[..., 1, :] = low
    leaves = [t.clone().double().requires_grad_() for t in (q, k, v)]
    away = [t.to("ocl").requires_grad_() for t in (q, k, v)]
    expected, got = softmaxed(*leaves, mask), fused(*away, mask=mask.to("ocl"))
    assert_same(got, expected.float(), 2e-5, strides=False)
    torch.testing.assert_close(got[:, :, 1].cpu(), v.mean(2), rtol=1e-5, atol=1e-5)
    seed = torch.randint(-3, 4, expected.shape).double()
    expected.backward(seed)
    got.backward(seed.float().to("ocl"))
    for w, a in zip(leaves, away):
        assert_same(a.grad, w.grad.float(), 1e-4, strides=False)


def test_large_equal_scores():
    for n in (2, 6, 33):
        q, k, v = torch.full((1, 1, 1, 1), 1e5), torch.ones(1, 1, n, 1), torch.ones(1, 1, n, 1)
        away = [t.to("ocl").requires_grad_() for t in (q, k, v)]
        got = fused(*away, scale=1.0)
        assert abs(got.item() - 1) < 1e-6
        got.backward(torch.ones_like(got))
        torch.testing.assert_close(away[2].grad.cpu(), torch.full_like(v, 1 / n), rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_rows_masked_by_the_least_half(dtype):
    q, k, v = (data(2, 2, n, 8, dtype=dtype, seed=n) for n in (3, 7, 7))
    mask = torch.zeros(3, 7, dtype=dtype)
    mask[2] = torch.finfo(dtype).min
    got = fused(q.to("ocl"), k.to("ocl"), v.to("ocl"), mask=mask.to("ocl"))
    # bf16's least number is so large that scores vanish beside it; f16's is not.
    expected = softmaxed(q.float(), k.float(), v.float(), mask.float())
    assert_same(got, expected.to(dtype), {torch.float16: 1e-2, torch.bfloat16: 3e-2}[dtype], strides=False)


@pytest.mark.parametrize("causal", [False, True])
def test_rows_masked_whole_give_nothing(causal):
    q, k, v = data(2, 2, 4, 8), data(2, 2, 5, 8, seed=1), data(2, 2, 5, 8, seed=2)
    mask = torch.zeros(4, 5) if causal else torch.randn(4, 5)
    if causal:
        mask = mask.masked_fill(~torch.ones(4, 5, dtype=torch.bool).tril(), -INF)
    mask[2] = -INF
    away = [t.to("ocl").requires_grad_() for t in (q, k, v, mask)]
    got = fused(*away[:3], mask=away[3])
    assert not got[:, :, 2].any()
    got.backward(torch.ones_like(got))
    for t in away:
        assert bool(t.grad.isfinite().all())
    assert not away[0].grad[:, :, 2].any() and not away[3].grad[2].any()


def test_logsumexp():
    q, k, v = data(1, 2, 3, 4).to("ocl"), data(1, 2, 5, 4).to("ocl"), data(1, 2, 5, 4).to("ocl")
    mask = torch.zeros(3, 5)
    mask[1], mask[2] = -1e9, -INF
    result = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q, k, v, mask.to("ocl"))
    s = q.cpu() @ k.cpu().transpose(-1, -2) / 2 + mask
    assert result[1].dtype == torch.float32
    torch.testing.assert_close(result[1].cpu(), torch.logsumexp(s, -1))


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_strides_are_the_meta_functions(layout):
    """The result's dimensions are in memory as the query's are; gradients as their inputs'."""
    def tensor(seed, heads=4, width=16):
        t = data(2, 5, heads, width, seed=seed)
        return (t.transpose(1, 2) if layout == "transposed" else t.transpose(1, 2).contiguous()).to("ocl").requires_grad_()

    q, k, v = tensor(0), tensor(1), tensor(2)
    out = fused(q, k, v)
    assert out.stride() == q.stride()
    if layout == "transposed":
        assert out.stride() == (320, 16, 64, 1)
    assert fused(q, k, tensor(2, width=8)).stride() == ((160, 8, 32, 1) if layout == "transposed" else (160, 40, 8, 1))
    out.backward(torch.ones_like(out))
    assert (q.grad.stride(), k.grad.stride(), v.grad.stride()) == (q.stride(), k.stride(), v.stride())


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"mask": (2, 1, 3, 5)}, {"heads": 2}, {"dropout_p": 0.4}], ids=str)
def test_double_backward(options):
    options = dict(options)
    heads = options.pop("heads", 4)
    q, k, v = data(2, 4, 3, 4), data(2, heads, 5, 4, seed=1), data(2, heads, 5, 4, seed=2)
    mask = data(*options.pop("mask"), seed=3) if "mask" in options else None
    leaves = [q, k, v] + ([mask] if mask is not None else [])
    away = [t.to("ocl").requires_grad_() for t in leaves]
    keep = None
    if "dropout_p" in options:
        torch.manual_seed(3)
        kept = fused(away[0], away[1], torch.eye(5, device="ocl").expand(2, 4, 5, 5), **options)
        keep = (kept.detach().cpu().double() != 0) / (1 - options["dropout_p"])
        torch.manual_seed(3)
    wide = [t.detach().cpu().double().requires_grad_() for t in away]

    def composed():
        group = q.shape[1] // heads
        k2, v2 = (t.repeat_interleave(group, 1) for t in wide[1:3])
        s = wide[0] @ k2.transpose(-1, -2) / 2
        if mask is not None:
            s = s + wide[3]
        if options.get("causal"):
            s = s.masked_fill(~torch.ones(3, 5, dtype=torch.bool).tril(), -INF)
        w = torch.softmax(s, -1)
        return (w if keep is None else w * keep) @ v2

    def twice(out, leaves):
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), leaves)
        return [*first, *second]

    got = twice(fused(*away[:3], mask=away[3] if mask is not None else None, **options), away)
    for g, e in zip(got, twice(composed(), wide)):
        size = max(1.0, e.abs().max().item())
        assert_same(g / size, (e / size).float(), 5e-5, strides=False)


def test_no_gradient_to_pass_on():
    """An undefined gradient gives undefined ones, as PyTorch's formulas do."""
    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return None

    q, k, v = (data(1, 2, 4, 4, seed=i).to("ocl").requires_grad_() for i in range(3))
    other = torch.ones(1, device="ocl", requires_grad=True)
    (Nothing.apply(fused(q, k, v)).sum() + other.sum()).backward()
    assert q.grad is None or not q.grad.any()
    assert other.grad.item() == 1
