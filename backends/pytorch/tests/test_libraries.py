"""What makes other libraries find the device, and tensors that go from process to process."""

import importlib.util
import os

import pytest
import torch


def test_accelerate_is_told(python):
    told = python("import os; print(os.environ.get('ACCELERATE_TORCH_DEVICE'))", ACCELERATE_TORCH_DEVICE="cpu")
    assert told.split() == ["cpu"]  # who has said something is left alone
    if torch.ocl.device_count() and not torch.cuda.is_available():
        assert os.environ["ACCELERATE_TORCH_DEVICE"] == "ocl"


class Rows(torch.utils.data.Dataset):
    """Its elements are on the device already."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        import torch_ocl

        torch_ocl.load()  # where it is not installed, nobody else does so in a worker
        return torch.full((3,), float(i), device="ocl"), i


def test_workers_give_tensors_of_the_device():
    loader = torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn", timeout=200)
    rows, numbers = zip(*loader)
    assert all(r.device.type == "ocl" for r in rows)
    assert torch.cat(rows)[:, 0].tolist() == [0, 1, 2, 3, 4, 5] == torch.cat(numbers).tolist()


def test_pickled_for_another_process():
    from multiprocessing.reduction import ForkingPickler
    import pickle

    for t in (torch.randn(4, 3, device="ocl").t(), torch.ones(2, device="ocl", requires_grad=True),
              torch.nn.Parameter(torch.ones(2, device="ocl")), torch.tensor(3, device="ocl")):
        copy = pickle.loads(ForkingPickler.dumps(t))
        assert type(copy) is type(t) and copy.device == t.device and copy.requires_grad == t.requires_grad
        assert torch.equal(copy.cpu(), t.cpu())
    with pytest.raises(RuntimeError, match="non-leaf"):
        ForkingPickler.dumps(torch.ones(2, device="ocl", requires_grad=True) * 2)


def dataset():
    torch.manual_seed(0)
    return torch.utils.data.TensorDataset(torch.randn(8, 4), torch.randint(0, 2, (8,)))


@pytest.mark.parametrize("precision", [None, "bf16"])
def test_accelerate(python, precision):
    pytest.importorskip("accelerate")
    out = python(f"""
import accelerate
a = accelerate.Accelerator(mixed_precision={precision!r})
model = torch.nn.Linear(4, 2)
model, optimizer = a.prepare(model, torch.optim.AdamW(model.parameters(), foreach=True))
loss = torch.nn.functional.cross_entropy(model(torch.randn(8, 4, device=a.device)), torch.zeros(8, dtype=torch.long, device=a.device))
a.backward(loss)
optimizer.step()
print(a.device.type, loss.device.type, next(model.parameters()).device.type)
""", ACCELERATE_TORCH_DEVICE="ocl")
    assert out.split() == ["ocl"] * 3


def small_llama(transformers):
    return transformers.LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                    num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32)


def test_transformers_loads_by_device_map(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    transformers.LlamaForCausalLM(small_llama(transformers)).save_pretrained(tmp_path)
    assert transformers.LlamaForCausalLM.from_pretrained(tmp_path, device_map="ocl").device.type == "ocl"


@pytest.mark.skipif(torch.cuda.is_available(), reason="Trainer's batches go to CUDA, whatever ACCELERATE_TORCH_DEVICE says")
def test_trainer_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(4)]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), per_device_train_batch_size=4, max_steps=1, report_to=[],
                                               save_strategy="no")
    trainer = transformers.Trainer(model=transformers.LlamaForCausalLM(small_llama(transformers)), args=arguments,
                                   train_dataset=rows)
    trainer.train()
    assert next(trainer.model.parameters()).device.type == "ocl"


def test_lightning():
    lightning = pytest.importorskip("lightning")
    import torch_ocl.lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 2)
            self.seen = set()

        def training_step(self, batch, _):
            x, y = batch
            out = self.layer(x)
            self.seen.add((x.device.type, out.device.type))
            return torch.nn.functional.cross_entropy(out, y)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    module = Module()
    before = module.layer.weight.detach().clone()
    trainer = lightning.Trainer(**torch_ocl.lightning.on("ocl:0"), max_steps=2, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(module, torch.utils.data.DataLoader(dataset(), batch_size=4))
    assert module.seen == {("ocl", "ocl")}
    assert not torch.equal(module.layer.weight.cpu(), before)


def test_ultralytics(python, tmp_path):
    """A detector is trained, validated and asked, by the device's name."""
    for module in ("ultralytics", "cv2", "matplotlib"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    out = python(f"""
import os
os.environ.update(YOLO_OFFLINE="1", YOLO_CONFIG_DIR={str(tmp_path)!r}, OCL_FALLBACK="error")
import cv2, numpy, pathlib, torch
import torch_ocl.ultralytics
import ultralytics, ultralytics.data.utils
ultralytics.data.utils.check_font = lambda *a, **k: None  # would fetch one
root = pathlib.Path({str(tmp_path)!r})
for part in ("train", "val"):
    (root / "images" / part).mkdir(parents=True)
    (root / "labels" / part).mkdir(parents=True)
    for i in range(4):
        image = numpy.full((64, 64, 3), 40, numpy.uint8)
        image[8 * i:8 * i + 24, 16:40, i % 3] = 250
        cv2.imwrite(str(root / "images" / part / f"{{i}}.png"), image)
        (root / "labels" / part / f"{{i}}.txt").write_text(f"0 0.4375 {{(8 * i + 12) / 64}} 0.375 0.375\\n")
(root / "data.yaml").write_text(f"path: {{root}}\\ntrain: images/train\\nval: images/val\\nnames: [a]\\n")
model = ultralytics.YOLO("yolov8n.yaml")
model.train(data=str(root / "data.yaml"), device="ocl:0", epochs=1, imgsz=64, batch=4, workers=0, amp=False, plots=False,
            project=str(root / "out"))
found = model.predict(str(root / "images/val/0.png"), device="ocl:0", imgsz=64, verbose=False)
print("devices", model.trainer.device, found[0].boxes.data.device)
""")
    assert out.split("devices ")[1].split() == ["ocl:0", "ocl:0"]


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = tmp_path / "a.safetensors"
    safetensors.save_file({"a": torch.arange(6.0, device="ocl")}, path)
    loaded = {k: v.to("ocl") for k, v in safetensors.load_file(path).items()}
    assert loaded["a"].device.type == "ocl" and loaded["a"].tolist() == [0, 1, 2, 3, 4, 5]
