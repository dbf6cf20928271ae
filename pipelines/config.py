"""The config of a run: frozen pydantic models, one per section, with every check that needs no TensorFlow.

A `Config` that exists is consistent: unknown keys, wrong types, numbers out of range and combinations that cannot
work raise while it is made. Sizes are pixels, rates and fractions lie in [0, 1], steps are optimizer steps.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tfdiff.pipelines import names

Count = Annotated[int, Field(gt=0)]
Steps = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Widths = Annotated[tuple[Count, ...], Field(min_length=1)]


class Section(BaseModel):
    """Immutable, and without room for unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Data(Section):
    """Which images: the arguments of `tfdiff.data.prepare` and `batches`."""

    source: str
    image_size: Count
    channels: Literal[1, 3] | None = None
    resize: names.Resize | None = None
    validation: Annotated[float, Field(gt=0, lt=1)] = 0.1
    limit: Count | None = None
    strict: bool = False
    #: Name → parameters, or a list of names.
    augment: dict[names.Augmentation, dict[str, Any] | None] = {}
    cache_dir: str | None = None

    @field_validator("augment", mode="before")
    @classmethod
    def _names_alone(cls, value: Any) -> Any:
        return dict.fromkeys(value) if isinstance(value, list) else value


class EdgeUNet(Section):
    """`tfdiff.networks.edge_unet`."""

    type: Literal["edge_unet"] = "edge_unet"
    conditional: bool | None = None
    widths: Widths = (32, 64, 96)
    blocks: Count = 2
    expansion: Count = 3
    noise_channels: Count = 32
    embedding_width: Count = 128

    @property
    def factor(self) -> int:
        """What image sizes must divide by."""
        return 2 ** len(self.widths)


class UNet(Section):
    """`tfdiff.networks.unet`."""

    type: Literal["unet"] = "unet"
    conditional: bool | None = None
    widths: Widths = (32, 64, 64)
    blocks: Count = 2
    attention: tuple[Count, ...] = (8,)
    heads: Count = 1
    groups: Count = 8
    noise_channels: Count = 32
    embedding_width: Count = 128

    @property
    def factor(self) -> int:
        """What image sizes must divide by."""
        return 2 ** (len(self.widths) - 1)

    @model_validator(mode="after")
    def _divisors_fit(self) -> UNet:
        for key, divisor in (("groups", self.groups), ("heads", self.heads)):
            unfit = [width for width in self.widths if width % divisor]
            if unfit:
                raise ValueError(f"network.{key}={divisor} does not divide the widths {unfit}: choose a common divisor")
        return self


Network = Annotated[EdgeUNet | UNet, Field(discriminator="type")]


class Train(Section):
    """How the dense network is trained. An epoch is `checkpoint_every` steps."""

    steps: Count
    batch_size: Count = 64
    learning_rate: Positive = 1e-3
    warmup_steps: Steps = 100
    ema_decay: Fraction = 0.999
    label_dropout: Fraction = 0.1
    clip_norm: Positive | None = 1.0
    precision: names.Precision = "float32"
    jit_compile: bool | Literal["auto"] = "auto"
    steps_per_execution: Count = 1
    parameterization: names.Parameterization = "edm"
    noise_levels: dict[str, str | float] = {"name": "lognormal"}
    weighting: names.Weighting = "edm"
    sigma_data: Positive = 0.5
    checkpoint_every: Count = 250
    #: Sample grids, every so many checkpoints.
    sample_every: Count = 1
    #: Held-out images whose denoising loss by noise level is measured at every checkpoint; 0: not measured.
    denoising_images: Steps = 128
    #: Pictures that are drawn at every checkpoint for a kernel distance to the real ones (KID); 0: none.
    kid_images: Steps = 0
    #: What a stage ends with: the weights after the last step, or those of the checkpoint where `monitor` was least.
    keep: Literal["last", "best"] = "last"
    monitor: Literal["val_denoising", "val_loss", "val_kid"] = "val_denoising"

    @model_validator(mode="after")
    def _monitor_is_measured(self) -> Train:
        needs = {"val_denoising": "denoising_images", "val_kid": "kid_images"}.get(self.monitor)
        if self.keep == "best" and needs and not getattr(self, needs):
            raise ValueError(
                f"train.keep=best picks by train.monitor={self.monitor}, which train.{needs}=0 does not measure: set "
                f"train.{needs} to some hundreds, or monitor val_loss"
            )
        if self.kid_images == 1:
            raise ValueError(
                "train.kid_images=1: a kernel distance needs 2 or more, and some hundreds to mean anything"
            )
        return self

    @field_validator("noise_levels", mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        """Accept `noise_levels: cosine` for `noise_levels: {name: cosine}`."""
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _noise_levels_exist(self) -> Train:
        name = self.noise_levels.get("name")
        if name not in names.SCHEDULE_OPTIONS:
            raise ValueError(f"train.noise_levels.name={name!r} is unknown: use {', '.join(names.SCHEDULE_OPTIONS)}")
        known = ("sigma_min", "sigma_max", *names.SCHEDULE_OPTIONS[str(name)])
        for option, value in self.noise_levels.items():
            if option != "name" and option not in known:
                raise ValueError(f"train.noise_levels.{option} is unknown to {name!r}: use {', '.join(known)}")
            if option != "name" and isinstance(value, str):
                raise ValueError(f"train.noise_levels.{option}={value!r} is not a number")
            if option in names.POSITIVE_SCHEDULE_OPTIONS and float(value) <= 0:
                raise ValueError(f"train.noise_levels.{option}={value:g} must be above 0")
        return self


class Policy(Section):
    """Which layers are pruned: `tfdiff.sparsity.PruningPolicy`."""

    first_and_last: bool = False
    embedding: bool = False
    min_weights: Steps = 256
    skip: tuple[str, ...] = ()


class Sparsify(Section):
    """How the trained network is made sparse: `tfdiff.sparsity.MagnitudePruning`, or not at all."""

    method: Literal["magnitude", "none"] = "magnitude"
    sparsity: Annotated[float, Field(gt=0, lt=1)] = 0.8
    steps: Count = 1000
    learning_rate: Positive = 1e-3
    warmup_steps: Steps = 0
    #: Share of the steps after which the masks stay; the rest is recovery.
    end: Annotated[float, Field(gt=0, le=1)] = 0.6
    initial_sparsity: Fraction = 0.0
    #: Steps between two masks; None: about 50 masks.
    frequency: Count | None = None
    policy: Policy = Policy()

    @model_validator(mode="after")
    def _target_is_reached(self) -> Sparsify:
        if self.method == "none":
            return self
        if self.initial_sparsity > self.sparsity:
            raise ValueError(
                f"sparsify.initial_sparsity={self.initial_sparsity} is above sparsify.sparsity={self.sparsity}"
            )
        # Masks change at multiples of `frequency`, the last of them at the target: one must come before the end.
        last = int(self.steps * self.end)
        if self.frequency is not None and self.frequency > max(last, 1):
            raise ValueError(
                f"sparsify.sparsity={self.sparsity:g} cannot be reached in sparsify.steps={self.steps}: the first mask "
                f"would come at step {self.frequency} (sparsify.frequency), after the schedule's end at step {last} "
                f"(sparsify.end={self.end:g}); train for more steps or prune more often"
            )
        return self


class Sampling(Section):
    """How pictures are drawn, in previews, in the exported files and in the report: `tfdiff.diffusion.Sampling`."""

    sampler: names.Sampler = "dpmpp_2m"
    num_steps: Count = 8
    schedule: names.Schedule = "karras"
    sigma_min: Positive = 0.02
    sigma_max: Positive = 80.0
    #: 1: none. 0, which would ignore the label, cannot be exported.
    guidance_scale: Positive = 1.0
    options: dict[str, float] = {}

    @model_validator(mode="after")
    def _can_be_exported(self) -> Sampling:
        if self.sigma_min >= self.sigma_max:
            raise ValueError(
                f"sampling.sigma_min={self.sigma_min:g} must be below sampling.sigma_max={self.sigma_max:g}"
            )
        known = names.SAMPLER_OPTIONS[self.sampler]
        for option in self.options:
            if option not in known:
                offer = f"use {', '.join(known)}" if known else "it has none"
                raise ValueError(f"sampling.options.{option} is unknown to sampler {self.sampler!r}: {offer}")
        noise = names.NOISE_OPTION.get(self.sampler)
        if noise and {**known, **self.options}[noise] > 0:
            raise ValueError(
                f"sampling.sampler={self.sampler!r} draws noise at every step, which an exported file cannot: set "
                f"sampling.options.{noise}=0, or use euler, heun or dpmpp_2m"
            )
        return self


class Export(Section):
    """Which files are made: `tfdiff.export.bundle`."""

    formats: Annotated[tuple[names.Format, ...], Field(min_length=1)] = (
        "float32.tflite", "float16.tflite", "dynamic.tflite", "int8.tflite", "float32.onnx", "int8.onnx",
    )  # fmt: skip
    calibration_images: Count = 64
    batch_size: Count = 1

    @model_validator(mode="after")
    def _calibration_fills_a_batch(self) -> Export:
        if self.batch_size > self.calibration_images:
            raise ValueError(
                f"export.batch_size={self.batch_size} is above export.calibration_images={self.calibration_images}: "
                "calibration fills whole batches; lower it, or calibrate with more images"
            )
        return self


class Verify(Section):
    """How the files are checked: `tfdiff.export.verify`."""

    images: Count = 32
    #: File ("sample_int8.tflite") or kind of file ("sample_int8") → threshold that replaces the library's.
    thresholds: dict[str, float] = {}


class Report(Section):
    """What the report shows."""

    #: Pictures that each scored model or file draws.
    images: Count = 512
    #: Score pictures with a classifier trained on the real ones; auto: where there are labels.
    recognise: bool | Literal["auto"] = "auto"
    #: Files that draw and score as many pictures as the Keras model; the others draw a grid.
    score: tuple[names.Format, ...] = ("float32.tflite", "int8.tflite")
    #: Pictures in each grid.
    grid: Count = 40
    #: Pictures that each file draws for the benchmark, and threads of each runtime.
    timed: Count = 20
    threads: Count = 1


class Config(Section):
    """Everything that a run depends on."""

    name: Annotated[str, Field(pattern=r"^[\w.-]+$")]
    #: Some stages use seeds a little above it, and NumPy's end at 2³².
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    data: Data
    network: Network = EdgeUNet()
    train: Train
    sparsify: Sparsify = Sparsify()
    sampling: Sampling = Sampling()
    export: Export = Export()
    verify: Verify = Verify()
    report: Report = Report()

    @model_validator(mode="after")
    def _sections_agree(self) -> Config:
        self._check_image_size()
        self._check_steps()
        self._check_thresholds()
        conditional = self.network.conditional
        if self.sampling.guidance_scale != 1 and conditional is False:
            raise ValueError(
                f"sampling.guidance_scale={self.sampling.guidance_scale:g} needs a conditional network: set it to 1, "
                "or network.conditional to true"
            )
        if self.sampling.guidance_scale != 1 and self.train.label_dropout == 0:
            raise ValueError(
                f"sampling.guidance_scale={self.sampling.guidance_scale:g} needs train.label_dropout above 0: without "
                "it the unconditional half is never trained"
            )
        if self.report.recognise is True and conditional is False:
            raise ValueError(
                "report.recognise=true needs a conditional network: there is no requested class to recognise"
            )
        return self

    def _check_image_size(self) -> None:
        size, factor = self.data.image_size, self.network.factor
        if size % factor:
            lower, upper = size // factor * factor, (size // factor + 1) * factor
            choice = f"{lower} or {upper}" if lower else str(upper)
            raise ValueError(
                f"data.image_size={size} does not divide by {factor}, which network.widths ({len(self.network.widths)} "
                f"levels of {self.network.type}) needs: use {choice}"
            )

    def _check_steps(self) -> None:
        stages: list[tuple[str, Train | Sparsify]] = [("train", self.train)]
        if self.sparsify.method != "none":
            stages.append(("sparsify", self.sparsify))
        for section, settings in stages:
            if settings.warmup_steps >= settings.steps:
                raise ValueError(
                    f"{section}.warmup_steps={settings.warmup_steps} must be below {section}.steps={settings.steps}"
                )
            epoch = self.epoch(settings.steps)
            if settings.steps % epoch:
                raise ValueError(
                    f"{section}.steps={settings.steps} is not a multiple of train.checkpoint_every={epoch}: use "
                    f"{settings.steps // epoch * epoch} steps, or another checkpoint_every"
                )
            if epoch % self.train.steps_per_execution:
                raise ValueError(
                    f"train.steps_per_execution={self.train.steps_per_execution} does not divide the {epoch} steps "
                    f"between checkpoints (train.checkpoint_every, {section}.steps): choose a divisor"
                )

    def _check_thresholds(self) -> None:
        files = [f"{signature}_{fmt}" for signature in ("denoise", "sample") for fmt in self.export.formats]
        for name in self.verify.thresholds:
            if name not in (*names.FILE_KINDS, *files):
                raise ValueError(
                    f"verify.thresholds.{name} is neither a file of export.formats nor a kind of file: use "
                    f"{', '.join(names.FILE_KINDS)}, or one of them with .tflite or .onnx"
                )

    def epoch(self, steps: int) -> int:
        """Steps between two checkpoints of a training of `steps`."""
        return min(self.train.checkpoint_every, steps)
