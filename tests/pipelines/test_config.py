"""Configs: what is refused, in which words; what is read back as it was written."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.pipelines.conftest import TINY
from tfdiff.errors import ConfigError
from tfdiff.pipelines import load_config, names, preset_names
from tfdiff.pipelines.config import EdgeUNet, Network, Policy, UNet
from tfdiff.pipelines.config_file import dump, known_keys, parse_overrides


def refusal(path: Path, overrides: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ({"train.stepz": 5}, "unknown key 'train.stepz': did you mean 'train.steps'?"),
        ({"trane.steps": 5}, "unknown key 'trane': did you mean 'train'?"),
        ({"network.width": [8]}, "unknown key 'network.width': did you mean 'network.widths'?"),
        ({"sparsify.policy.skipp": []}, "unknown key 'sparsify.policy.skipp': did you mean 'sparsify.policy.skip'?"),
        ({"train.steps": 0}, "train.steps=0: input should be greater than 0"),
        ({"train.steps": "many"}, "train.steps='many'"),
        ({"train.learning_rate": float("nan")}, "train.learning_rate=nan"),
        ({"data.channels": 2}, "data.channels=2: input should be 1 or 3"),
        ({"network.widths": []}, "network.widths=[]"),
        ({"network.type": "resnet"}, "network.type='resnet' is unknown: use edge_unet or unet"),
        ({"sampling.sampler": "plms"}, "sampling.sampler='plms'"),
        (
            {"data.image_size": 9},
            "data.image_size=9 does not divide by 2, which network.widths (1 levels of edge_unet) needs: use 8 or 10",
        ),
        ({"network.type": "unet", "network.widths": [8, 12]}, "network.groups=8 does not divide the widths [12]"),
        ({"sparsify.frequency": 8}, "sparsify.sparsity=0.8 cannot be reached in sparsify.steps=12"),
        ({"sparsify.initial_sparsity": 0.9}, "sparsify.initial_sparsity=0.9 is above sparsify.sparsity=0.8"),
        ({"sampling.sampler": "ancestral"}, "set sampling.options.eta=0"),
        ({"sampling.sampler": "heun", "sampling.options": {"s_churn": 4}}, "set sampling.options.s_churn=0"),
        ({"sampling.options": {"eta": 0}}, "sampling.options.eta is unknown to sampler 'dpmpp_2m': it has none"),
        ({"sampling.sigma_min": 30}, "sampling.sigma_min=30 must be below sampling.sigma_max=20"),
        ({"train.noise_levels": "cosin"}, "train.noise_levels.name='cosin' is unknown"),
        ({"train.noise_levels": {"name": "karras", "s": 1}}, "train.noise_levels.s is unknown to 'karras'"),
        ({"train.kid_images": 1}, "train.kid_images=1: a kernel distance needs 2 or more"),
        (
            {"train.keep": "best", "train.denoising_images": 0},
            "train.monitor=val_denoising, which train.denoising_images=0 does not measure",
        ),
        (
            {"train.keep": "best", "train.monitor": "val_kid"},
            "train.monitor=val_kid, which train.kid_images=0 does not measure",
        ),
        ({"train.steps": 10}, "train.steps=10 is not a multiple of train.checkpoint_every=4: use 8 steps"),
        ({"sparsify.steps": 10}, "sparsify.steps=10 is not a multiple of train.checkpoint_every=4"),
        (
            {"train.steps_per_execution": 3},
            "train.steps_per_execution=3 does not divide the 4 steps between checkpoints",
        ),
        ({"train.warmup_steps": 12}, "train.warmup_steps=12 must be below train.steps=12"),
        (
            {"network.conditional": False, "sampling.guidance_scale": 2},
            "sampling.guidance_scale=2 needs a conditional network",
        ),
        ({"train.label_dropout": 0, "sampling.guidance_scale": 2}, "needs train.label_dropout above 0"),
        ({"network.conditional": False, "report.recognise": True}, "report.recognise=true needs a conditional network"),
        ({"export.formats": []}, "export.formats=[]"),
        ({"name": "a/b"}, "name='a/b'"),
        ({"sampling.guidance_scale": 0}, "sampling.guidance_scale=0: input should be greater than 0"),
        ({"export.batch_size": 65}, "export.batch_size=65 is above export.calibration_images=64"),
        ({"verify.thresholds": {"sample_int4": 9}}, "verify.thresholds.sample_int4 is neither a file"),
        (
            {"export.formats": ["int8.tflite"], "verify.thresholds": {"sample_int8.onnx": 9}},
            "verify.thresholds.sample_int8.onnx is neither a file of export.formats",
        ),
        (
            {"train.noise_levels": {"name": "lognormal", "p_std": 0}},
            "train.noise_levels.p_std=0 must be above 0",
        ),
        ({"train.noise_levels": {"name": "karras", "rho": -7}}, "train.noise_levels.rho=-7 must be above 0"),
        ({"seed": 2**31}, "seed=2147483648"),
        ({"data.source.path": 1}, "data.source is 'digits', which has no keys"),
    ],
)
def test_refusals_name_the_key(tiny: Path, overrides: dict[str, Any], expected: str) -> None:
    assert expected in refusal(tiny, overrides)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "train.noise_levels={name:cosine}",
            "train.noise_levels: YAML needs a space after a colon: write {name: cosine}.",
        ),
        ("verify.thresholds={sample_int8:9, sample_float16: 9}", "verify.thresholds: YAML needs a space"),
        ("sparsify={policy: {min_weights:1}}", "sparsify.policy: YAML needs a space"),
    ],
)
def test_colon_without_a_space(tiny: Path, setting: str, expected: str) -> None:
    assert refusal(tiny, parse_overrides([setting])).startswith(expected)


def test_questions_end_with_their_mark(tiny: Path) -> None:
    assert refusal(tiny, {"network.expansio": 2}).endswith("did you mean 'network.expansion'?")
    assert refusal(tiny, {"train.steps": 0}).endswith("greater than 0.")


def test_thresholds_of_kinds_and_of_exported_files(tiny: Path) -> None:
    thresholds = {"sample_int8": 9.0, "denoise_float16.tflite": 30.0}
    assert load_config(tiny, {"verify.thresholds": thresholds}).verify.thresholds == thresholds


def test_missing_key(tiny: Path) -> None:
    tiny.write_text(yaml.safe_dump({"data": {"source": "digits", "image_size": 8}}))
    assert "train is missing: set it in the config or with --set train=…" in refusal(tiny, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a: [", "is not YAML"), ("- 1", "holds list, not the sections of a config"), ("", "holds NoneType")],
)
def test_files_that_are_no_config(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    assert expected in refusal(path, {})


def test_unknown_source_lists_presets() -> None:
    with pytest.raises(ConfigError, match="no config 'cifar': give a preset \\(digits, folder, mnist\\)"):
        load_config("cifar")


def test_overrides_are_yaml() -> None:
    settings = ["train.steps=200", "network.widths=[8, 16]", "network.conditional=null", "data.source=a=b"]
    assert parse_overrides(settings) == {
        "train.steps": 200,
        "network.widths": [8, 16],
        "network.conditional": None,
        "data.source": "a=b",
    }
    for bad in ("train.steps", "=3", "train.steps=["):
        with pytest.raises(ConfigError, match="--set"):
            parse_overrides([bad])


def test_numbers_that_yaml_takes_for_text(tiny: Path) -> None:
    config = load_config(tiny, parse_overrides(["train.learning_rate=1e-3"]))
    assert config.train.learning_rate == 1e-3


def test_another_network_type_starts_from_its_defaults(tiny: Path) -> None:
    config = load_config(tiny, {"network.type": "unet", "network.blocks": 1})
    assert config.network == UNet(blocks=1)


def test_epoch_fits_short_trainings(tiny: Path) -> None:
    config = load_config(tiny, {"train.checkpoint_every": 500})
    assert config.epoch(config.train.steps) == 12


def test_configs_are_frozen(tiny: Path) -> None:
    config = load_config(tiny)
    with pytest.raises(ValueError, match="frozen"):
        config.train.steps = 5  # type: ignore[misc]


@pytest.mark.parametrize("name", preset_names())
def test_presets_resolve_and_read_back(name: str, tmp_path: Path) -> None:
    config = load_config(name, {"data.source": "photos/"} if name == "folder" else {})
    path = tmp_path / "config.yaml"
    path.write_text(dump(config))
    assert load_config(path) == config
    assert load_config(tmp_path) == config


def test_known_keys_reach_every_section() -> None:
    keys = known_keys()
    assert {"seed", "data.source", "network.widths", "sparsify.policy.skip", "report.images"} <= set(keys)
    assert "network.attention" not in keys
    assert "network.attention" in known_keys("unet")


def test_a_bad_config_is_refused_before_tensorflow_loads(tiny: Path) -> None:
    script = (
        "import sys; from tfdiff.pipelines.cli import app\n"
        f"try: app(['run', {str(tiny)!r}, '--set', 'sparsify.frequency=8'])\n"
        "except SystemExit as exit: print(exit.code, sorted({'tensorflow', 'tf_keras'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2 []"
    assert done.stderr.startswith("error: sparsify.sparsity=0.8 cannot be reached")


class TestNamesMatchTheLibrary:
    """Configs repeat some names and rules so that they need no TensorFlow; here they are held to their owners."""

    def test_names(self) -> None:
        from tfdiff import data, diffusion, export, training
        from tfdiff.data.augmentation import LAYERS
        from tfdiff.export.verification import THRESHOLDS

        for literal, owner in (
            (names.Parameterization, diffusion.PARAMETERIZATIONS),
            (names.Weighting, diffusion.WEIGHTINGS),
            (names.Precision, training.PRECISIONS),
            (names.Resize, get_args(data.Resize)),
            (names.Sampler, diffusion.SAMPLERS),
            (names.Schedule, diffusion.SCHEDULES),
            (names.Augmentation, LAYERS),
            (names.Format, export.FORMATS),
        ):
            assert set(get_args(literal)) == set(owner)
        assert set(names.FILE_KINDS) == set(THRESHOLDS)

    def test_options(self) -> None:
        from tfdiff import diffusion

        for sampler, options in names.SAMPLER_OPTIONS.items():
            assert options == diffusion.sampler_options(sampler)
            noise = names.NOISE_OPTION.get(sampler)
            assert noise is None or not diffusion.is_deterministic(sampler, **{noise: 0.5})
            assert diffusion.is_deterministic(sampler, **({noise: 0.0} if noise else {}))
        for name, schedule in diffusion.SCHEDULES.items():
            assert {field.name for field in fields(schedule)} == {
                "sigma_min",
                "sigma_max",
                *names.SCHEDULE_OPTIONS[name],
            }

    def test_defaults(self) -> None:
        import inspect

        from tfdiff import networks, sparsity

        for model, build in ((EdgeUNet, networks.edge_unet), (UNet, networks.unet)):
            parameters = inspect.signature(build).parameters
            for key, value in model().model_dump(exclude={"type", "conditional"}).items():
                assert parameters[key].default == value
        assert sparsity.PruningPolicy(**Policy().model_dump()) == sparsity.PruningPolicy()

    @pytest.mark.parametrize(
        "network", [EdgeUNet(widths=(8, 8), blocks=1), UNet(widths=(8, 8), blocks=1, attention=())]
    )
    @pytest.mark.parametrize("size", range(1, 10))
    def test_image_sizes(self, network: Network, size: int) -> None:
        from tfdiff import networks

        build = networks.edge_unet if isinstance(network, EdgeUNet) else networks.unet
        values = {**TINY, "data": {**TINY["data"], "image_size": size}, "network": network.model_dump()}
        try:
            build(size, 1, **network.model_dump(exclude={"type", "conditional"}))
        except ValueError:
            with pytest.raises(ValueError, match=f"data.image_size={size}"):
                type(load_config("digits")).model_validate(values)
        else:
            type(load_config("digits")).model_validate(values)

    @pytest.mark.parametrize(
        ("steps", "end", "frequency"), [(10, 0.6, 6), (10, 0.6, 7), (10, 0.6, None), (1, 0.1, 1), (1, 1.0, 2)]
    )
    def test_pruning_targets(self, steps: int, end: float, frequency: int | None) -> None:
        from tfdiff.pipelines.config import Sparsify
        from tfdiff.sparsity import MagnitudePruning

        options = {"sparsity": 0.8, "steps": steps, "end": end, "frequency": frequency}
        try:
            MagnitudePruning.polynomial(**options)
        except ValueError:
            with pytest.raises(ValueError, match="cannot be reached"):
                Sparsify(**options)
        else:
            Sparsify(**options)
