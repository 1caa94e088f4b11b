"""Small language models and a diffusion network train on a PyTorch device as on the CPU, and generate the same tokens.

    pip install transformers diffusers
    python examples/pytorch/validate_transformers.py --device ocl:0              # all
    python examples/pytorch/validate_transformers.py llama qwen2 --steps 20

Weights and data are random and the same in both places; dropout is off. Losses of all steps must agree within --tolerance of the
first one; rounding differs, so they drift apart with the steps.
"""

import argparse
import copy
import os
import time

os.environ.setdefault("TORCH_OCL_AUTOLOAD", "1")  # ocl is there beside CUDA too
import torch  # noqa: E402
import transformers  # noqa: E402

VOCABULARY, LENGTH, BATCH = 128, 32, 4


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=2 * LENGTH, n_embd=64, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2 * LENGTH))


def qwen2():
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=2 * LENGTH))


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=2 * LENGTH, hidden_dropout_prob=0, attention_probs_dropout_prob=0))


def unet():
    import diffusers

    return diffusers.UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))


MODELS = {"gpt2": gpt2, "llama": llama, "qwen2": qwen2, "bert": bert, "unet": unet}


def loss_of(name, model, data):
    if name == "unet":
        noisy, noise, times = data
        return torch.nn.functional.mse_loss(model(noisy, times).sample, noise)
    return model(input_ids=data, labels=data).loss


def batches(name, steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        if name == "unet":
            image, noise = (torch.randn(BATCH, 3, 16, 16, generator=generator) for _ in range(2))
            yield image + noise, noise, torch.randint(0, 1000, (BATCH,), generator=generator)
        else:  # sequences that count on, which can be learnt
            start = torch.randint(0, VOCABULARY, (BATCH, 1), generator=generator)
            yield (start + 3 * torch.arange(LENGTH)) % VOCABULARY


def train(name, model, device, steps):
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for data in batches(name, steps):
        data = tuple(part.to(device) for part in data) if isinstance(data, tuple) else data.to(device)
        optimizer.zero_grad()
        loss = loss_of(name, model, data)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return model, torch.stack(losses).cpu()


@torch.inference_mode()
def continued(model, device):
    prompt = (7 + 3 * torch.arange(8)).unsqueeze(0).to(device)
    return model.eval().generate(prompt, max_new_tokens=16, do_sample=False, pad_token_id=0).cpu()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=", ".join(MODELS))
    parser.add_argument("--device", default="ocl:0")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()

    wrong = []
    for name in options.models:
        if name not in MODELS:
            parser.error(f"there is no model {name}, only {', '.join(MODELS)}")
        torch.manual_seed(0)
        model = MODELS[name]()
        there, expected = train(name, model, "cpu", options.steps)
        start = time.time()
        here, losses = train(name, model, options.device, options.steps)
        seconds = time.time() - start
        worst = float((losses - expected).abs().max() / expected[0])
        right = worst <= options.tolerance and float(losses[-1]) == float(losses[-1])
        tokens = ""
        if name in ("gpt2", "llama", "qwen2"):
            same = torch.equal(continued(there, "cpu"), continued(here, options.device))
            tokens = "the same tokens" if same else "OTHER TOKENS"
            right = right and same
        print(f"{name:6} loss {losses[0]:.4f} to {losses[-1]:.4f}, cpu {expected[-1]:.4f}, differs by {worst:.1e} at most; "
              f"{options.steps} steps in {seconds:.1f} s; {tokens:15} {'right' if right else 'WRONG'}", flush=True)
        if not right:
            wrong.append(name)
    if options.device.startswith("ocl"):
        print(torch.ocl.fallbacks())
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
