"""Model families of transformers, timm, diffusers and ultralytics on a PyTorch device, against the CPU.

    pip install transformers timm diffusers ultralytics     # whichever is wanted; what is missing is skipped
    python examples/pytorch/validate_models.py --device ocl:0            # all
    python examples/pytorch/validate_models.py mixtral gemma2 --jobs 2

Models are small and random; nothing is downloaded. For each one the forward pass, the gradients of all parameters and, where it writes
text, 12 greedy tokens are compared. The judge is the CPU in f64: the device's error may be up to --times that of the CPU in f32, and
--floor units of rounding. A process for each family; OCL_FALLBACK=error forbids the CPU. The last lines list what is left.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
os.environ.setdefault("OCL_FALLBACK", "error")
import torch  # noqa: E402

WORDS = 96
SMALL = dict(vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
GROUPED = dict(SMALL, num_key_value_heads=2)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
PLAIN = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
IMAGE = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=32, patch_size=8, **PLAIN)

# Family: what the configuration is changed to. Language models are made by AutoModelForCausalLM.
CAUSAL = {
    "llama": GROUPED, "mistral": GROUPED, "qwen2": GROUPED, "qwen3": dict(GROUPED, head_dim=8), "gemma": dict(GROUPED, head_dim=8),
    "gemma2": dict(GROUPED, head_dim=8, sliding_window=8), "phi": SMALL, "phi3": GROUPED, "olmo": GROUPED, "olmo2": GROUPED,
    "granite": GROUPED, "cohere": GROUPED, "cohere2": GROUPED, "starcoder2": GROUPED, "stablelm": GROUPED, "persimmon": SMALL,
    "glm": dict(GROUPED, head_dim=8), "glm4": dict(GROUPED, head_dim=8), "helium": dict(GROUPED, head_dim=8), "smollm3": GROUPED,
    "nemotron": GROUPED, "ernie4_5": dict(GROUPED, head_dim=8), "exaone4": GROUPED, "arcee": GROUPED, "apertus": GROUPED,
    "seed_oss": dict(GROUPED, head_dim=8), "hunyuan_v1_dense": dict(GROUPED, head_dim=8), "lfm2": GROUPED,
    "gpt2": dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                 bos_token_id=1, eos_token_id=2),
    "gpt_neo": dict(vocab_size=WORDS, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                    max_position_embeddings=64, bos_token_id=1, eos_token_id=2),
    "gpt_neox": SMALL, "gptj": dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, bos_token_id=1,
                                    eos_token_id=2),
    "gpt_bigcode": dict(vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                        bos_token_id=1, eos_token_id=2),
    "opt": dict(vocab_size=WORDS, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32,
                max_position_embeddings=64, dropout=0, bos_token_id=2, eos_token_id=2, pad_token_id=1),
    "bloom": dict(vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0),
    "falcon": dict(SMALL, num_kv_heads=2, new_decoder_architecture=True), "codegen": dict(
        vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=1, eos_token_id=2),
    "mpt": dict(vocab_size=WORDS, d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    "biogpt": dict(SMALL, hidden_dropout_prob=0, attention_probs_dropout_prob=0), "xglm": dict(
        vocab_size=WORDS, d_model=32, ffn_dim=48, num_layers=2, attention_heads=4, dropout=0, attention_dropout=0),
    "mamba": dict(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4, time_step_rank=4),
    "mixtral": dict(GROUPED, num_local_experts=4), "qwen2_moe": dict(GROUPED, **EXPERTS, shared_expert_intermediate_size=16),
    "qwen3_moe": dict(GROUPED, head_dim=8, **EXPERTS), "olmoe": dict(GROUPED, **EXPERTS), "granitemoe": dict(
        GROUPED, num_local_experts=4), "phimoe": dict(GROUPED, num_local_experts=4), "gpt_oss": dict(
        GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "deepseek_v3": dict(SMALL, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_group=2,
                        topk_group=1, first_k_dense_replace=1, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4,
                        v_head_dim=8),
    "deepseek_v2": dict(SMALL, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                        first_k_dense_replace=1, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8),
}
# Encoders, by AutoModel; of "t5" and its kin both halves get words.
ENCODERS = {name: dict(SMALL, **PLAIN) for name in (
    "bert", "roberta", "electra", "camembert", "xlm-roberta", "ernie", "rembert", "roformer", "megatron-bert", "layoutlm")}
ENCODERS.update({
    "albert": dict(SMALL, embedding_size=16, **PLAIN), "distilbert": dict(
        vocab_size=WORDS, dim=32, hidden_dim=48, n_layers=2, n_heads=4, max_position_embeddings=64, dropout=0, attention_dropout=0),
    "mpnet": dict(SMALL, **PLAIN), "deberta-v2": dict(SMALL, **PLAIN, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "modernbert": dict(SMALL, global_attn_every_n_layers=2, local_attention=8, classifier_dropout=0), "fnet": dict(SMALL, hidden_dropout_prob=0),
})
BOTH = {"t5": dict(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0),
        "bart": dict(vocab_size=WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                     encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, dropout=0)}
BOTH["mt5"], BOTH["mbart"], BOTH["pegasus"] = BOTH["t5"], BOTH["bart"], BOTH["bart"]
VISION = {name: IMAGE for name in ("vit", "deit", "dinov2", "vit_msn", "beit")}
VISION["convnextv2"] = dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
VISION["swin"] = dict(image_size=32, patch_size=2, embed_dim=8, depths=[1, 2], num_heads=[1, 2], window_size=4, drop_path_rate=0, **PLAIN)
VISION["resnet"] = dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1])
TIMM = ["resnet18", "mobilenetv3_small_050", "efficientnet_b0", "convnext_atto", "vit_tiny_patch16_224", "deit_tiny_patch16_224",
        "swin_tiny_patch4_window7_224", "regnetx_002", "ghostnet_050", "mixer_s32_224", "edgenext_xx_small", "repvgg_a0"]


def transformer(auto, family, changes, **inputs):
    import transformers

    config = transformers.AutoConfig.for_model(family, **changes)
    for name in ("attention_dropout", "dropout", "embd_pdrop", "resid_pdrop", "hidden_dropout", "activation_dropout"):
        if isinstance(getattr(config, name, None), float):
            setattr(config, name, 0.0)
    return getattr(transformers, auto).from_config(config), inputs


def words(seed=1, length=12):
    return torch.randint(3, WORDS, (2, length), generator=torch.Generator().manual_seed(seed))


def image(side, channels=3):
    return torch.randn(2, channels, side, side, generator=torch.Generator().manual_seed(1))


def diffusion(name):
    import diffusers

    common = dict(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8)
    text = torch.randn(2, 5, 32, generator=torch.Generator().manual_seed(2))
    step = torch.tensor([3, 7])
    if name == "unet2d":
        return diffusers.UNet2DModel(**common, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                                     up_block_types=("AttnUpBlock2D", "UpBlock2D")), dict(sample=image(8, 4), timestep=step)
    if name == "unet2d_condition":
        return diffusers.UNet2DConditionModel(
            **common, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=32, attention_head_dim=8), dict(sample=image(8, 4), timestep=step, encoder_hidden_states=text)
    if name == "autoencoder_kl":
        return diffusers.AutoencoderKL(block_out_channels=(16, 32), norm_num_groups=8, latent_channels=4,
                                       down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2
                                       ), dict(sample=image(16))
    if name == "vq_model":
        return diffusers.VQModel(block_out_channels=(16, 32), norm_num_groups=8, latent_channels=3,
                                 down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2
                                 ), dict(sample=image(16))
    if name == "dit":
        return diffusers.DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8,
                                               patch_size=2, norm_num_groups=4, num_embeds_ada_norm=10, dropout=0.0
                                               ), dict(hidden_states=image(8, 4), timestep=step, class_labels=torch.tensor([1, 4]))
    if name == "pixart":
        return diffusers.PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, num_layers=2, sample_size=8,
                                                  patch_size=2, cross_attention_dim=16, caption_channels=32, norm_num_groups=4,
                                                  use_additional_conditions=False), dict(
            hidden_states=image(8, 4), timestep=step, encoder_hidden_states=text, added_cond_kwargs={"resolution": None, "aspect_ratio": None})
    raise KeyError(name)


DIFFUSERS = ["unet2d", "unet2d_condition", "autoencoder_kl", "vq_model", "dit", "pixart"]


def build(name):
    """A model and what it is called with. Names of libraries other than transformers have a prefix."""
    torch.manual_seed(0)
    library, _, rest = name.rpartition("/")
    if library == "timm":
        import timm

        drops = {} if rest.startswith("ghostnet") else {"drop_path_rate": 0.0}
        return timm.create_model(rest, num_classes=7, drop_rate=0.0, **drops), dict(x=image(224 if "224" in rest else 64))
    if library == "diffusers":
        return diffusion(rest)
    if library == "ultralytics":
        from ultralytics.nn.tasks import DetectionModel, SegmentationModel

        kind = SegmentationModel if rest.endswith("-seg") else DetectionModel
        return kind(rest + ".yaml", nc=3, verbose=False), dict(x=image(64).sigmoid())
    if name in CAUSAL:
        return transformer("AutoModelForCausalLM", name, CAUSAL[name], input_ids=words(), use_cache=False)
    if name in ENCODERS:
        return transformer("AutoModel", name, ENCODERS[name], input_ids=words())
    if name in BOTH:
        return transformer("AutoModel", name, BOTH[name], input_ids=words(), decoder_input_ids=words(2, 7), use_cache=False)
    return transformer("AutoModel", name, VISION[name], pixel_values=image(32))


FAMILIES = [*CAUSAL, *ENCODERS, *BOTH, *VISION, *(f"timm/{n}" for n in TIMM), *(f"diffusers/{n}" for n in DIFFUSERS),
            *(f"ultralytics/{n}" for n in ("yolov8n", "yolo11n", "yolov8n-seg"))]


def floats_in(value):
    """All floating tensors of a result, in its order."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for item in value for t in floats_in(item)]
    return []


def moved(value, device, dtype):
    if isinstance(value, torch.Tensor):
        return value.to(device, dtype if value.is_floating_point() else None)
    if isinstance(value, dict):
        return {k: moved(v, device, dtype) for k, v in value.items()}
    return value


def run(model, inputs, device, dtype, train):
    """Outputs and gradients, on the CPU, in f64."""
    model = copy.deepcopy(model).to(device, dtype).train(train and any(m.__class__.__name__ == "Detect" for m in model.modules()))
    if dtype == torch.float64 and hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # the products of groups that experts are computed by have no f64
    torch.set_default_dtype(dtype)  # some models make constants of their own in it
    try:
        outputs = floats_in(model(**moved(inputs, device, dtype)))
    finally:
        torch.set_default_dtype(torch.float32)
    outputs = [t for t in outputs if t.requires_grad]
    seeds = [torch.randn(t.shape, generator=torch.Generator().manual_seed(5)).to(t) for t in outputs]
    sum((t * s).mean() for t, s in zip(outputs, seeds)).backward()
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return [[t.detach().cpu().double() for t in part] for part in (outputs, gradients)]


def error(found, right):
    """The largest difference of a list of tensors, in units of the largest number of each."""
    worst = 0.0
    for a, b in zip(found, right):
        if b.numel():
            worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp_min(1e-6)))
            if not torch.isfinite(a).all() and torch.isfinite(b).all():
                return float("inf")
    return worst


def continued(model, device):
    model = copy.deepcopy(model).to(device).eval()
    with torch.inference_mode():
        return model.generate(words()[:1, :6].to(device), max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0).cpu()


def judge(name, options):
    model, inputs = build(name)
    model.eval()
    right = run(model, inputs, "cpu", torch.float64, True)
    usual = run(model, inputs, "cpu", torch.float32, True)
    here = run(model, inputs, options.device, torch.float32, True)
    line = {"family": name, "parameters": sum(p.numel() for p in model.parameters())}
    good = len(here[0]) == len(right[0]) > 0
    for what, i in (("forward", 0), ("gradients", 1)):
        found, cpu = error(here[i], right[i]), error(usual[i], right[i])
        line[what], line[what + "_cpu"] = found, cpu
        good = good and found <= max(options.times * cpu, options.floor * 2.0**-23)
    if name in CAUSAL:
        line["same_tokens"] = torch.equal(continued(model, "cpu"), continued(model, options.device))
        good = good and line["same_tokens"]
    if options.device.startswith("ocl"):
        line["fallbacks"] = dict(torch.ocl.fallbacks())
    return dict(line, right=good)


def in_process(name, options):
    """A line about the family: what it came to, why it is skipped, or the error."""
    command = [sys.executable, os.path.abspath(__file__), name, "--alone", "--device", options.device, "--times", str(options.times),
               "--floor", str(options.floor)]
    start = time.time()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
        last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
        line = json.loads(last) if last.startswith("{") else {
            "family": name, "right": False, "error": (done.stderr.strip().splitlines() or ["no output"])[-1][:300]}
    except subprocess.TimeoutExpired:
        line = {"family": name, "right": False, "error": f"longer than {options.timeout} s"}
    return dict(line, seconds=round(time.time() - start, 1))


def alone(name, options):
    try:
        line = judge(name, options)
    except ImportError as e:
        line = {"family": name, "right": None, "error": f"{type(e).__name__}: {e}"[:300]}
    except Exception as e:  # noqa: BLE001: every error is a result here
        line = {"family": name, "right": False, "error": f"{type(e).__name__}: {e}"[:300]}
    print(json.dumps(line))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--times", type=float, default=8, help="of the CPU's own error in f32")
    parser.add_argument("--floor", type=float, default=64, help="units of 2^-23 of the largest number")
    parser.add_argument("--timeout", type=float, default=900, help="seconds a family")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", help="a file for a JSON line of each family")
    parser.add_argument("--alone", action="store_true", help="in this process, as the others are run")
    options = parser.parse_args()
    for name in options.families:
        if name not in FAMILIES:
            parser.error(f"there is no family {name}, only {', '.join(FAMILIES)}")
    if options.alone:
        if options.device.startswith("ocl"):
            import torch_ocl

            torch_ocl.load()  # does nothing where PyTorch has done so
        return alone(options.families[0], options)
    from concurrent.futures import ThreadPoolExecutor

    left = []
    out = open(options.out, "w") if options.out else None
    with ThreadPoolExecutor(options.jobs) as pool:
        for line in pool.map(lambda name: in_process(name, options), options.families):
            numbers = "".join(f"{what} {line[what]:.1e} (cpu {line[what + '_cpu']:.1e})  " for what in ("forward", "gradients") if what in line)
            word = {True: "right", False: "WRONG", None: "skipped"}[line["right"]]
            print(f"{line['family']:28} {word:8} {numbers}{line.get('error', '')} {line['seconds']} s", flush=True)
            if out:
                print(json.dumps(line), file=out, flush=True)
            if line["right"] is False:
                left.append(line["family"])
    print(f"{len(options.families) - len(left)} of {len(options.families)} are right or skipped; left: {', '.join(left) or 'none'}")
    return bool(left)


if __name__ == "__main__":
    raise SystemExit(main())
