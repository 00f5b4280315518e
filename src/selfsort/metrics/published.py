"""Scores printed in the papers, as data: never a target of a test, always shown beside what was measured here.

Methods and data sets carry the names of the command line. An entry says which NMI it is, how the authors ran the
method and whether the number was checked against the text of the paper.

Columns of a table are data sets, rows are methods, a missing value is a dash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

NMIVariant = Literal["geometric", "arithmetic", "max"]


@dataclass(frozen=True)
class Score:
    """One printed result."""

    method: str
    dataset: str
    acc: float | None
    nmi: float | None
    ari: float | None
    nmi_variant: NMIVariant
    features: str
    """What was clustered: `pixels`, `jule` (features learned by JULE), `jule@DATASET` (learned on another one, and
    `:top-1` for the layer), `hog`, `lbp`, `spm`, or `own` for a method that learns its own."""
    protocol: str
    source: str
    is_verified: bool = True
    """False: known from the literature, not confirmed against the paper's text."""
    note: str = ""
    spread: Mapping[str, float] = field(default_factory=dict)
    """Printed standard deviations of a mean, by metric."""


DATASETS: dict[str, str] = {
    "coil20": "COIL-20, 1,440 images, 128x128 gray",
    "coil100": "COIL-100, 7,200 images, 128x128 colour",
    "usps": "USPS, 11,000 images, 16x16 gray",
    "mnist-test": "MNIST, the 10,000 test images",
    "mnist": "MNIST, all 70,000 images",
    "umist": "UMist, 575 images, 112x92 gray",
    "frgc": "FRGC-v2, 2,462 images, 32x32 colour",
    "cmu-pie": "CMU-PIE, 2,856 images, 32x32 gray",
    "ytf": "YouTube Faces, 10,000 images, 55x55 colour",
    "cifar10": "CIFAR-10",
    "cifar100-20": "CIFAR-100 by its 20 superclasses",
    "stl10": "STL-10",
    "imagenet10": "ImageNet-10",
    "imagenet-dog": "ImageNet-Dog, 15 breeds",
}
"""The data sets as the papers used them."""

_JULE_PAPER = "Yang, Parikh, Batra, CVPR 2016"
_DBC_PAPER = "Li, Qiao, Zhang, Xi, Pattern Recognition 2018"
_GAT_PAPER = "Niu, Zhang, Wang, Liang, ECCV 2020"
_SECU_PAPER = "Qian, ICCV 2023"
_ALL_IMAGES = "fitted and scored on all images"

_JULE_DATASETS = "coil20 coil100 usps mnist-test mnist umist frgc cmu-pie ytf"

_JULE_NMI = """
jule-sf    1.000 0.978 0.858 0.876 0.906 0.880 0.566 0.984 0.848
jule       1.000 0.985 0.913 0.915 0.913 0.877 0.574 1.000 0.848
kmeans     0.775 0.822 0.447 0.528 0.500 0.609 0.389 0.549 0.761
sc-njw     0.860 0.872 0.409 0.528 0.476 0.727 0.186 0.543 0.752
sc-st      0.673 0.706 0.342 0.445 0.416 0.611 0.431 0.581 0.620
sc-ls      0.877 0.833 0.681 0.756 0.706 0.810 0.550 0.788 0.759
ncuts      0.768 0.861 0.382 0.386 0.411 0.782 0.285 0.411 0.742
ac-link    0.512 0.711 0.579 0.662 0.686 0.643 0.168 0.545 0.738
ac-zell    0.954 0.963 0.774 0.810 0.017 0.755 0.351 0.910 0.733
ac-gdl     0.945 0.954 0.854 0.864 0.017 0.755 0.351 0.934 0.622
ac-pic     0.950 0.964 0.840 0.853 0.017 0.750 0.415 0.902 0.697
nmf-lp     0.720 0.783 0.435 0.467 0.452 0.560 0.346 0.491 0.720
nmf-d      0.692 0.719 0.286 0.243 0.148 0.500 0.258 0.983 0.569
"""

_JULE_ACC = """
jule-sf    1.000 0.894 0.922 0.940 0.959 0.809 0.461 0.980 0.684
jule       1.000 0.916 0.950 0.961 0.964 0.809 0.461 1.000 0.684
kmeans     0.665 0.580 0.467 0.560 0.564 0.419 0.327 0.246 0.548
sc-njw     0.641 0.544 0.413 0.220 0.502 0.551 0.178 0.255 0.551
sc-st      0.417 0.300 0.308 0.454 0.311 0.411 0.358 0.293 0.290
sc-ls      0.717 0.609 0.659 0.740 0.714 0.568 0.407 0.549 0.544
ncuts      0.544 0.577 0.314 0.304 0.327 0.550 0.235 0.155 0.536
ac-link    0.251 0.269 0.421 0.693 0.657 0.398 0.175 0.201 0.547
ac-zell    0.867 0.811 0.575 0.693 0.112 0.517 0.266 0.765 0.519
ac-gdl     0.865 0.797 0.867 0.933 0.113 0.563 0.266 0.842 0.430
ac-pic     0.855 0.840 0.855 0.920 0.115 0.576 0.320 0.797 0.472
nmf-lp     0.621 0.553 0.522 0.479 0.471 0.365 0.259 0.229 0.546
"""

# ACC / NMI of the classical methods on the features JULE had learned.
_JULE_LEARNED = """
kmeans     .821/.926 .751/.919 .776/.758 .957/.908 .969/.927 .761/.871 .476/.636 .834/.956 .660/.835
sc-njw     .738/.915 .659/.898 .716/.753 .868/.878 .972/.931 .707/.833 .485/.625 .776/.957 .521/.789
sc-st      .851/.959 .705/.922 .661/.741 .960/.911 .958/.906 .697/.847 .496/.651 .896/.938 .575/.741
sc-ls      .867/.950 .735/.905 .792/.780 .960/.912 .973/.932 .733/.879 .502/.639 .802/.950 .571/.802
ncuts      .888/.963 .626/.900 .634/.705 .959/.910 .971/.930 .798/.877 .504/.640 .981/.995 .441/.823
ac-link    .678/.896 .539/.884 .773/.783 .955/.901 .964/.918 .795/.872 .495/.621 .947/.990 .602/.803
ac-zell    1.00/1.00 .931/.989 .879/.910 .879/.893 .969/.919 .790/.870 .449/.551 1.00/1.00 .644/.821
ac-gdl     1.00/1.00 .920/.985 .949/.913 .961/.915 .878/.913 .790/.870 .461/.574 1.00/1.00 .677/.842
ac-pic     1.00/1.00 .950/.990 .955/.914 .958/.909 .882/.907 .790/.870 .438/.553 1.00/1.00 .652/.829
nmf-lp     .769/.855 .603/.834 .778/.729 .955/.905 .970/.926 .725/.854 .481/.575 .504/.690 .575/.788
"""

# What earlier papers had reported, where it differs from JULE's re-runs (NMI only).
_ORIGINAL_NMI = """
sc-njw     0.889 0.854 0.690 0.755
sc-st      0.895 0.858 0.726 0.756
ncuts      0.884 0.823 0.675 0.753
ac-zell    0.911 0.913 0.799 0.768
ac-gdl     0.937 0.929 0.824 0.844
"""

# AC-GDL on features learned on another data set (Tables 5 and 6, NMI): on pixels, by the top layer, by those below.
_JULE_TRANSFER = """
coil20     coil100    0.924 0.927 0.939 0.934
coil100    coil20     0.944 0.949 0.957 0.951
mnist-test usps       0.874 0.892 0.907 0.908
usps       mnist-test 0.872 0.873 0.886 -
"""

# Hand-crafted features (Table 12, NMI): one kind for each data set; which it was for FRGC is not said.
_JULE_HANDCRAFTED = """
spm        coil100    0.733 0.722 0.878
hog        mnist-test 0.625 0.423 0.735
lbp        umist      0.752 0.420 0.734
not-said   frgc       0.338 0.238 0.322
"""

# ACC / NMI. The column of k-means on USPS repeats that of MNIST, digit by digit, and is left out.
_DBC = """
kmeans-dbc     0.535/0.531 -           0.592/0.767 0.506/0.772
aec            0.760/0.669 0.715/0.651 -           -
iec            0.609/0.542 0.767/0.641 -           0.546/0.787
den            -           -           0.725/0.870 -
dcn            0.58/0.63   -           -           -
dcn-processed  0.93/0.85   -           -           -
fcae-kmeans    0.794/0.698 0.667/0.645 0.787/0.882 0.766/0.897
dbc            0.964/0.917 0.743/0.724 0.793/0.895 0.775/0.905
"""
# Of these ACC alone is printed.
_DBC_ACC = """
dae-kmeans     0.818
dec            0.843
"""

# ACC / NMI / ARI from here on.
_DAC = """
dac         0.522/0.396/0.306 0.238/0.185/0.088 0.470/0.366/0.257 0.527/0.394/0.302 0.275/0.219/0.111
dac-star    0.498/0.379/0.280 0.219/0.162/0.078 0.434/0.347/0.235 0.503/0.369/0.284 0.246/0.182/0.095
"""

# The second log of CIFAR-10 is that of a script with two thresholds, which is DAC.
_DAC_LOGS = """
dac-star    0.981/0.947/0.958 0.474/0.443/0.321 0.255/0.212/0.110 0.668/0.579/0.517 0.250/0.208/0.104
dac         -                 0.518/0.468/0.380 -                 -                 -
"""

_GAT = """
gatcluster        0.583/0.446/0.363 0.739/0.594/0.552 0.322/0.281/0.163 0.610/0.475/0.402 0.281/0.215/0.116
gatcluster-128    -                 0.762/0.609/0.572 0.333/0.322/0.200 -                 -
"""

# Best / mean / standard deviation over the runs, of ACC, NMI and ARI. The ARI of the best run at 128 pixels is printed
# once as .572 and once (Table 4) as .571.
_GAT_STL_RUNS = """
gatcluster-colour 0.556/0.517/0.034 0.427/0.402/0.022 0.341/0.298/0.031
gatcluster-no-ti  0.576/0.546/0.016 0.435/0.417/0.012 0.347/0.325/0.014
gatcluster-no-sm  0.579/0.529/0.029 0.438/0.412/0.019 0.356/0.310/0.024
gatcluster-no-am  0.539/0.494/0.020 0.416/0.383/0.015 0.316/0.282/0.013
gatcluster        0.583/0.537/0.033 0.446/0.415/0.022 0.363/0.315/0.032
"""

_GAT_IMAGENET_RUNS = """
gatcluster     0.739/0.708/0.031 0.594/0.581/0.012 0.552/0.529/0.019
gatcluster-128 0.762/0.735/0.020 0.609/0.592/0.013 0.572/0.544/0.023
gatcluster-160 0.712/0.669/0.033 0.567/0.511/0.043 0.500/0.453/0.039
gatcluster-192 0.738/0.608/0.067 0.612/0.474/0.071 0.559/0.405/0.079
gatcluster-128-attention2  0.746/0.666/0.050 0.625/0.538/0.050 0.569/0.477/0.045
gatcluster-128-attention4  0.706/0.678/0.017 0.539/0.528/0.012 0.486/0.473/0.014
gatcluster-128-attention8  0.742/0.719/0.018 0.618/0.594/0.019 0.561/0.536/0.018
gatcluster-128-attention10 0.671/0.645/0.020 0.549/0.520/0.021 0.478/0.450/0.020
"""

_GAT_COMPARED = """
kmeans  0.192/0.125/0.061 0.241/0.119/0.057 0.105/0.055/0.020 0.229/0.087/0.049 0.130/0.084/0.028
sc-njw  0.159/0.098/0.048 0.274/0.151/0.076 0.111/0.038/0.013 0.247/0.103/0.085 0.136/0.090/0.022
ac      0.332/0.239/0.140 0.242/0.138/0.067 0.139/0.037/0.021 0.228/0.105/0.065 0.138/0.098/0.034
nmf-lp  0.180/0.096/0.046 0.230/0.132/0.065 0.118/0.044/0.016 0.190/0.081/0.034 0.118/0.079/0.026
ae      0.303/0.250/0.161 0.317/0.210/0.152 0.185/0.104/0.073 0.314/0.239/0.169 0.165/0.100/0.048
sae     0.320/0.252/0.161 0.335/0.212/0.174 0.183/0.113/0.073 0.297/0.247/0.156 0.157/0.109/0.044
sdae    0.302/0.224/0.152 0.304/0.206/0.138 0.190/0.104/0.078 0.297/0.251/0.163 0.151/0.111/0.046
decnn   0.299/0.227/0.162 0.313/0.186/0.142 0.175/0.098/0.073 0.282/0.240/0.174 0.133/0.092/0.038
swvae   0.270/0.196/0.136 0.324/0.176/0.160 0.159/0.094/0.076 0.284/0.233/0.164 0.147/0.103/0.039
catgan  0.298/0.210/0.139 0.346/0.225/0.157 -                 0.315/0.265/0.176 -
gmvae   0.282/0.200/0.146 0.334/0.193/0.168 -                 0.291/0.245/0.167 -
jule-sf 0.274/0.175/0.162 0.293/0.160/0.121 -                 0.264/0.192/0.136 -
jule    0.277/0.182/0.164 0.300/0.175/0.138 0.138/0.054/0.028 0.272/0.192/0.138 0.137/0.103/0.033
dec     0.359/0.276/0.186 0.381/0.282/0.203 0.195/0.122/0.079 0.301/0.257/0.161 0.185/0.136/0.050
iic     0.499/-/-         -                 -                 0.617/-/-         0.257/-/-
dccm    0.482/0.376/0.262 0.710/0.608/0.555 0.383/0.321/0.182 0.623/0.496/0.408 0.327/0.285/0.173
"""

_SECU_SELF_LABELLED = """
secu       0.930/0.861/0.857 0.552/0.551/0.397 0.836/0.733/0.693
scan       0.883/0.797/0.772 0.507/0.486/0.333 0.809/0.698/0.646
"""

# One setting of SeCu changed at a time: gamma, length of the features; batch size, of which ACC alone is printed.
_SECU_ABLATION = """
secu-gamma-1      0.854/0.762/0.730
secu-gamma-0.8    0.876/0.787/0.766
secu-gamma-0.7    0.866/0.777/0.751
secu-dim-64       0.880/0.793/0.774
secu-dim-256      0.882/0.793/0.775
secu-dim-512      0.878/0.790/0.772
"""

_SECU_BATCH = """
secu-batch-32     0.879
secu-batch-64     0.883
secu-batch-256    0.879
"""

_SECU_PLAIN = """
secu-no-self-label    0.885/0.799/0.782 0.516/0.516/0.360 0.814/0.707/0.657
"""


_LEARNED = (
    *("jule", "dec", "iic", "dccm", "ae", "fcae", "dbc", "iec", "den", "dcn", "dae"),
    *("sae", "sdae", "swvae", "catgan", "gmvae"),
)


@dataclass(frozen=True)
class _Table:
    """How to read one block of text: the data sets of its columns, the metrics of a cell, and what they all share."""

    text: str
    datasets: str
    metrics: tuple[str, ...]
    nmi_variant: NMIVariant
    source: str
    features: str = "own"
    protocol: str = _ALL_IMAGES
    is_verified: bool = True
    note: str = ""

    def scores(self) -> list[Score]:
        """One entry per cell that holds a number."""
        found = []
        for line in self.text.strip().splitlines():
            method, *cells = line.split()
            for dataset, cell in zip(self.datasets.split(), cells, strict=True):
                if cell != "-":
                    printed = zip(self.metrics, cell.split("/"), strict=True)
                    values = {metric: float(value) for metric, value in printed if value != "-"}
                    found.append(self._score(method, dataset, values))
        return found

    def _score(self, method: str, dataset: str, values: dict[str, float]) -> Score:
        # In a table of pixels the methods that learn still have their own features.
        is_learned = method.startswith(_LEARNED)
        return Score(
            method=method,
            dataset=dataset,
            acc=values.get("acc"),
            nmi=values.get("nmi"),
            ari=values.get("ari"),
            nmi_variant=self.nmi_variant,
            features="own" if is_learned else self.features,
            protocol=self.protocol,
            source=self.source,
            is_verified=self.is_verified,
            note=self.note,
        )


_BOTH = ("acc", "nmi")
_ALL_THREE = ("acc", "nmi", "ari")
_MEAN_OF_3 = f"{_ALL_IMAGES}; mean of 3 runs"
_DBC_DATASETS = "mnist usps coil20 coil100"
_DAC_DATASETS = "cifar10 cifar100-20 stl10 imagenet10 imagenet-dog"
_GAT_DATASETS = "stl10 imagenet10 imagenet-dog cifar10 cifar100-20"
_SECU_DATASETS = "cifar10 cifar100-20 stl10"
_QUOTED_BY_GAT = f"quoted in the comparison table of {_GAT_PAPER}"
_TEST_SPLIT = "fitted on the training split, scored on the test split; NMI variant inferred"


def _handcrafted() -> Iterator[_Table]:
    for line in _JULE_HANDCRAFTED.strip().splitlines():
        features, dataset, *values = line.split()
        rows = "\n".join(
            f"{method} {value}" for method, value in zip(("sc-ls", "ncuts", "ac-pic"), values, strict=True)
        )
        yield _Table(rows, dataset, ("nmi",), "geometric", f"{_JULE_PAPER}, Table 12", features)


def _transferred() -> Iterator[_Table]:
    for line in _JULE_TRANSFER.strip().splitlines():
        learned_on, dataset, on_pixels, *values = line.split()
        source = f"{_JULE_PAPER}, Tables 5 and 6"
        yield _Table(f"ac-gdl-transfer {on_pixels}", dataset, ("nmi",), "geometric", source, "pixels")
        for layer, value in zip(("", ":top-1", ":top-2"), values, strict=True):
            yield _Table(f"ac-gdl {value}", dataset, ("nmi",), "geometric", source, f"jule@{learned_on}{layer}")


_TABLES = (
    _Table(_JULE_NMI, _JULE_DATASETS, ("nmi",), "geometric", _JULE_PAPER, "pixels", _MEAN_OF_3),
    _Table(_JULE_ACC, _JULE_DATASETS, ("acc",), "geometric", _JULE_PAPER, "pixels", _MEAN_OF_3),
    _Table(_JULE_LEARNED, _JULE_DATASETS, _BOTH, "geometric", _JULE_PAPER, "jule", _MEAN_OF_3),
    _Table(
        _ORIGINAL_NMI,
        "coil20 coil100 usps mnist-test",
        ("nmi",),
        "geometric",
        f"earlier papers, quoted by {_JULE_PAPER}",
        "pixels",
    ),
    _Table("nmf-d 0.910", "cmu-pie", ("nmi",), "geometric", f"earlier papers, quoted by {_JULE_PAPER}", "pixels"),
    _Table("tsc-d 0.928 0.651", "coil20 mnist", ("nmi",), "geometric", f"earlier papers, quoted by {_JULE_PAPER}"),
    *_transferred(),
    *_handcrafted(),
    _Table(_DBC, _DBC_DATASETS, _BOTH, "max", _DBC_PAPER, "pixels"),
    _Table(_DBC_ACC, "mnist", ("acc",), "max", _DBC_PAPER),
    _Table("dac 0.978/0.935", "mnist", _BOTH, "geometric", "Chang et al., ICCV 2017"),
    _Table(
        "dac 0.949",
        "mnist",
        ("ari",),
        "geometric",
        "Chang et al., ICCV 2017",
        is_verified=False,
    ),
    _Table("dac-star 0.966", "mnist", ("acc",), "geometric", "an author's reply to a user of the DAC code"),
    _Table(_DAC, _DAC_DATASETS, _ALL_THREE, "geometric", f"Chang et al., ICCV 2017, {_QUOTED_BY_GAT}"),
    _Table(
        _DAC_LOGS,
        "mnist cifar10 cifar100-20 imagenet10 imagenet-dog",
        _ALL_THREE,
        "geometric",
        "logs released with the DAC code",
        note="final epoch",
    ),
    _Table(
        "dac-star 0.433/0.387/0.263",
        "stl10",
        _ALL_THREE,
        "geometric",
        "logs released with the DAC code",
        note="the log stops at epoch 36",
    ),
    _Table(_GAT, _GAT_DATASETS, _ALL_THREE, "geometric", _GAT_PAPER, protocol=f"{_ALL_IMAGES}; best of several runs"),
    _Table(_GAT_COMPARED, _GAT_DATASETS, _ALL_THREE, "geometric", _QUOTED_BY_GAT, "pixels"),
    _Table(
        "secu 0.881/0.794/0.776",
        "cifar10",
        _ALL_THREE,
        "arithmetic",
        f"{_SECU_PAPER}, supplement",
        protocol=_TEST_SPLIT,
        note="size constraint with gamma 0.9, without self-labelling",
    ),
    *(
        _Table(
            text,
            "cifar10",
            metrics,
            "arithmetic",
            f"{_SECU_PAPER}, supplement",
            protocol=_TEST_SPLIT,
            note="size constraint, without self-labelling; one setting changed",
        )
        for text, metrics in ((_SECU_ABLATION, _ALL_THREE), (_SECU_BATCH, ("acc",)))
    ),
    _Table(
        _SECU_PLAIN,
        _SECU_DATASETS,
        _ALL_THREE,
        "arithmetic",
        _SECU_PAPER,
        protocol=_TEST_SPLIT,
        is_verified=False,
        note="before self-labelling",
    ),
    _Table(
        _SECU_SELF_LABELLED,
        _SECU_DATASETS,
        _ALL_THREE,
        "arithmetic",
        f"comparison tables of papers after {_SECU_PAPER}",
        protocol=_TEST_SPLIT,
        note="after self-labelling",
    ),
)


def _join(scores: list[Score]) -> tuple[Score, ...]:
    """Put metrics of one result that stand in separate tables of one paper into one entry."""
    joined: dict[tuple[str, ...], Score] = {}
    for score in scores:
        key = (score.method, score.dataset, score.features, score.source, score.note, str(score.is_verified))
        first = joined.get(key)
        if first is None:
            joined[key] = score
            continue
        joined[key] = Score(
            **{
                **vars(first),
                "acc": first.acc if score.acc is None else score.acc,
                "nmi": first.nmi if score.nmi is None else score.nmi,
                "ari": first.ari if score.ari is None else score.ari,
            }
        )
    return tuple(joined.values())


def _runs_of_gatcluster(text: str, dataset: str, what: str, n_runs: int) -> Iterator[Score]:
    """Read best / mean / standard deviation of each metric; the best of the main table is there already."""
    main = {line.split()[0] for line in _GAT.strip().splitlines()}
    for line in text.strip().splitlines():
        method, *cells = line.split()
        best, mean, spread = zip(*(map(float, cell.split("/")) for cell in cells), strict=True)
        for note, (acc, nmi, ari) in (("best", best), ("mean", mean)):
            if note == "mean" or method not in main:
                yield Score(
                    method=method,
                    dataset=dataset,
                    acc=acc,
                    nmi=nmi,
                    ari=ari,
                    nmi_variant="geometric",
                    features="own",
                    protocol=f"{_ALL_IMAGES}; {note} of {n_runs} runs",
                    source=f"{_GAT_PAPER}, {what}",
                    note=note,
                    spread=dict(zip(_ALL_THREE, spread, strict=True)) if note == "mean" else {},
                )


SCORES: tuple[Score, ...] = _join(
    [
        *(score for table in _TABLES for score in table.scores()),
        *_runs_of_gatcluster(_GAT_STL_RUNS, "stl10", "ablation", 10),
        *_runs_of_gatcluster(_GAT_IMAGENET_RUNS, "imagenet10", "image size and resolution of attention", 5),
    ]
)
"""Every printed result, those of a method's main table first."""


def published(method: str, dataset: str, features: str | None = None) -> tuple[Score, ...]:
    """Return what was printed about a method on a data set, the main source first; empty if nothing was.

    Args:
        method: a name of METHODS, or one of the papers' variants (`jule-sf`, `dac-star`, `fcae-kmeans`, ...).
        dataset: a key of `DATASETS`.
        features: keep only results on these features (`pixels`, `jule`, `own`).

    >>> [(score.nmi, score.acc) for score in published("ac-gdl", "cmu-pie", "pixels")]
    [(0.934, 0.842)]
    """
    return tuple(
        score
        for score in SCORES
        if score.method == method and score.dataset == dataset and features in (None, score.features)
    )
