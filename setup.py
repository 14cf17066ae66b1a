"""Packaging of acer_tf. Tool settings are in pyproject.toml, the tested versions in requirements/."""

import pathlib
import re
import runpy

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = pathlib.Path(__file__).resolve().parent


def read(name: str) -> str:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', read("acer_tf/__init__.py"), re.MULTILINE)
    if not found:
        raise RuntimeError("acer_tf/__init__.py does not define __version__")
    return found.group(1)


COMMIT = runpy.run_path(str(ROOT / "acer_tf/runs/commit.py"))


def write_commit(folder: pathlib.Path) -> None:
    """Records the commit in the copy of the package in `folder`, which has no git history."""
    known = [text for text in COMMIT["code_version"](ROOT / "acer_tf").values() if text]
    if known:
        (folder / "acer_tf" / COMMIT["COMMIT_FILE"]).write_text("\n".join(known) + "\n")


class BuildWithCommit(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_commit(pathlib.Path(self.build_lib))


class SourcesWithCommit(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_commit(pathlib.Path(base_dir))


# Lower bounds: `make test-lowest` tests them (requirements/lowest.lock). Upper bounds: the next that may break.
INSTALL_REQUIRES = [
    "tensorflow>=2.18.1,<2.22",
    "keras>=3.8,<4",
    "tf_keras>=2.18,<2.22",  # TensorFlow Probability does not import without it
    "tensorflow-probability>=0.25,<0.26",
    'setuptools; python_version >= "3.12"',  # distutils, which TensorFlow Probability imports
    "tensorboard>=2.18,<2.22",  # event files (runs/progress.py); no longer a dependency of TensorFlow
    "numpy>=2.0.2,<3",
    "gymnasium>=1.1,<2",
    "ale-py>=0.12,<0.13",  # includes the ROMs of all 57 games
    "absl-py>=2.1,<3",
    "optree>=0.20,<1",
    "psutil>=5.9.8,<8",
    "pandas>=2.2.2,<3",  # published scores, by which `evaluate` normalises; rliable 1.2.0 does not import with pandas 3
    "imageio>=2.35,<3",
    "imageio-ffmpeg>=0.5.1,<1",  # mp4 videos without a system ffmpeg
]

EXTRAS_REQUIRE = {
    # MuJoCo and the DeepMind Control Suite. MuJoCo 4 breaks dm_control 1.0.50. On Python 3.13 labmaze, which dm_control
    # requires and only its mazes use, has no wheel and does not build: there the extra brings what else it requires,
    # and `pip install --no-deps "dm_control>=1.0.50,<2"` completes it.
    "control": [
        "gymnasium[mujoco]>=1.1,<2",
        "mujoco>=3.17,<4",
        "shimmy>=2.0.1,<3",
        'dm_control>=1.0.50,<2; python_version < "3.13"',
        *(
            f'{name}; python_version >= "3.13"'
            for name in ("dm-env", "dm-tree", "lxml", "pyparsing", "requests", "scipy", "tqdm")
        ),
    ],
    "minatar": ["minatar>=1.0.15,<2"],
    "classic": ["gymnasium[classic-control]>=1.1,<2"],  # draws gymnasium's classic control
    "formats": ["tf2onnx>=1.17,<2", "onnx>=1.17,<2"],  # policies as ONNX files
    "ray": ["ray>=2.40,<3"],
    "slurm": ["submitit>=1.5.4,<2"],
    # Tables, figures and their interval estimates.
    "reproduction": [
        "rliable>=1.2,<2",
        "scipy>=1.17.1,<2",
        "arch>=7,<8",
        "jinja2>=3.1,<4",
        "matplotlib>=3.9,<4",
        "pillow>=11,<14",
    ],
    "dev": [
        'cpprb>=11,<12; python_version < "3.13"',  # compared with our priorities in benchmarks/; does not build on 3.13
        "onnxruntime>=1.20,<2",  # runs the ONNX files in tests
        "selenium>=4.30,<5",
        "pytest>=9,<10",
        "pytest-xdist>=3.8,<4",
        "ruff>=0.17,<0.18",
        "mypy>=2.4,<3",
        "types-psutil>=7,<8",
        # Execute docs/tutorial.ipynb.
        "nbclient>=0.10,<1",
        "nbformat>=5.10,<6",
        "ipykernel>=6.29,<8",
    ],
}

# The search of hyper-parameters, with its tables and figures.
EXTRAS_REQUIRE["tune"] = [*EXTRAS_REQUIRE["reproduction"], "optuna>=4.9,<5"]

setup(
    name="acer_tf",
    version=version(),
    description="ACER (Sample Efficient Actor-Critic with Experience Replay) in TensorFlow 2 and Keras 3",
    long_description=read("README.md"),
    long_description_content_type="text/markdown",
    author="The acer_tf authors",
    url="https://arxiv.org/abs/1611.01224",  # the paper's
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11,<3.14",
    # Without experiments/ and benchmarks/, which belong to the repository.
    packages=find_packages(include=["acer_tf", "acer_tf.*"]),
    package_data={
        "acer_tf": ["py.typed", "__init__.pyi"],
        "acer_tf.conformance": ["vectors.json"],
        "acer_tf.envs": ["*.xml"],
        "acer_tf.reproduction": ["data/*.csv"],
        "acer_tf.reproduction.report": ["templates/*"],
    },
    cmdclass={"build_py": BuildWithCommit, "sdist": SourcesWithCommit},
    zip_safe=False,
    entry_points={"console_scripts": ["acer_tf = acer_tf.__main__:console"]},
    install_requires=INSTALL_REQUIRES,
    extras_require=EXTRAS_REQUIRE,
    classifiers=[
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
