"""Verdict on one program, from what its build and its run left: exit status, time, text."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Outcome of a program, best first."""

    PASSED = "passed"
    """It ended well and says that its result is right."""
    RAN = "ran"
    """It ended well and says nothing about its result."""
    BUILDS = "builds"
    """It was built and not run: its GPU part has not been compiled."""
    WAIVED = "waived"
    """It says that it cannot run on this device."""
    EXCLUDED = "excluded"
    """It needs graphics, MPI, another system, or a file that its corpus lacks."""
    FAILED = "failed"


class Cause(StrEnum):
    """Why a program did not pass, as the report counts it."""

    NONE = ""
    COMPILE_HOST = "compile: host part"
    COMPILE_GPU = "compile: GPU part"
    LINK = "link: missing symbol"
    LIBRARY = "missing library"
    FILE = "missing file or data set"
    ARGUMENTS = "needs arguments"
    EXERCISE = "exercise that its reader completes"
    OUTSIDE = "needs MPI, graphics or another system"
    FOREIGN = "needs a library that does not come with CUDA"
    CCCL = "needs an older CUB or Thrust"
    DRIVER_API = "needs the driver API"
    BUILD = "build: other"
    BUILD_TIME = "build: time-out"
    RUN_SYMBOL = "run: missing symbol"
    RUNTIME = "run: runtime error"
    MEMORY = "run: out of memory"
    CRASH = "run: crash"
    WRONG = "run: wrong result"
    EXIT = "run: exit status"
    TIME = "run: time-out"
    WAIVED = "waived by the program"


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended or was stopped."""

    code: int
    """Exit status; negative: number of the signal that ended it."""
    output: str
    seconds: float = 0.0
    stopped: bool = False
    """Its time was up."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome with its cause and the words that show it."""

    status: Status
    cause: Cause = Cause.NONE
    detail: str = ""


_OUTSIDE: Final = re.compile(
    r"\b(mpi(?:cc|cxx|exec|run)?|openmpi|nvc|GL|GLUT|freeglut|GLEW|GLFW\d?|OpenGL|EGL|GLES\d?|X11|vulkan|Vulkan|d3d\d+|dxgi|nvscibuf|nvscisync|"
    r"NVSCI|cudaEGL|cudaGL|cudaVDPAU|drm|gbm|windows|FreeImage|OpenCV|opencv2?|omp-offload|rdma|nvshmem)\b",
    re.IGNORECASE,
)
_LIBRARY: Final = re.compile(
    r"\b(cublas\w*|cufft\w*|curand|cusparse\w*|cusolver\w*|npp\w*|nvjpeg\w*|nvrtc\w*|nvml|nvJitLink|nvvm|"
    r"cutensor\w*|cusparseLt|cutlass|(?<!helper )cuda(?=\b)|cudadevrt|thrust|cub)\b"
)
_FOREIGN: Final = re.compile(
    r"\b(boost\w*|gsl|gdal|cudnn\w*|nccl|torch|CLI11|omp|fftw\d?|hdf5|lapack\w*|openblas|blas|tbb|sqlite\d|png|jpeg|tiff|"
    r"zlib|z)\b"
)
_OLD_CCCL: Final = re.compile(
    r"error: no (?:\w+ )?named '(\w+)' in namespace '(cub|thrust)'|"
    r"undeclared identifier '((?:Constant|Counting|Transform)InputIterator|DiscardOutputIterator)'"
)
"""Names that release 3 of CUB and Thrust no longer has, the latter of `cub`, whose namespace a program may use."""
_PYTHON: Final = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")
_HEADER: Final = re.compile(r"fatal error: '?([^':\s]+)'?(?: file not found|: No such file)")
_FATAL: Final = re.compile(r"^nvcc fatal +: .*$", re.MULTILINE)
_CMAKE_MISSING: Final = re.compile(
    r"(?:Could NOT find|Could not find a package configuration file provided by) \"?(\w+)"
)
_CMAKE_TARGET: Final = re.compile(r"target was not found:\s*(\S+)|links to:\s+(\S+)\s+but the target was not found")
_CMAKE_LEFT_OUT: Final = re.compile(
    r"(\S+) (?:was )?not found\b.{0,20}\bwill not (?:be )?(?:build|built)\b|\bis (\w+)-only\b.{0,5}\bskipping",
    re.IGNORECASE,
)
"""Message of a sample's own CMakeLists.txt that leaves the sample out and succeeds."""
_NO_LIBRARY: Final = re.compile(r"(?:cannot find|unable to find library) -l(?::?lib)?([\w.+-]+)")
_UNDEFINED: Final = re.compile(
    r"undefined (?:reference to|symbol:) [`'\"]?([^'`\"\n]+?)['`\"]?(?:$|\n|;|,)", re.MULTILINE
)
_DRIVER_NAME: Final = r"[^\w\s]?(cu[A-Z][a-z]\w+|CU[a-z]\w+|CU(?:DA)?_[A-Z]\w+)[^\w\s]?"
_DRIVER_API: Final = re.compile(
    rf"error: {_DRIVER_NAME} (?:was not declared|does not name a type|has not been declared)|"
    rf"(?:undeclared identifier|unknown type name|undefined reference to) {_DRIVER_NAME}"
)
_GPU_PART: Final = re.compile(r"GPU part|device code|--cuda-device|ptxas|while compiling .*kernel", re.IGNORECASE)
_COMPILE_ERROR: Final = re.compile(r"^.*?(?:fatal )?error: (.*)$", re.MULTILINE)
_NO_COMPILER: Final = re.compile(
    r"\b(mpi(?:cc|cxx|c\+\+|exec)|nvc\+\+)(?!\w).*(?:not found|No such file)|(\w+): (?:command )?not found"
)
_NO_FILE: Final = re.compile(
    r"No rule to make target '([^']+)'|([\w./+-]+): No such file or directory|can't cd to ([\w./+-]+)"
)

_WAIVED: Final = re.compile(r"\bwaiv(?:ed|ing)\b|waiving", re.IGNORECASE)
_LACKS: Final = re.compile(
    r"^.*\b(?:do(?:es)?(?: not|n't) support|not supported|No CUDA devices support|requires? a device|GPUs are required)\b.*$",
    re.MULTILINE,
)
_WAIVES: Final = 2
"""Exit status by which NVIDIA's samples waive."""
_LOADER: Final = re.compile(r"symbol lookup error: .*undefined symbol: (\S+?),?(?:\s|$)|undefined symbol: (\w+)")
_SHARED: Final = re.compile(r"error while loading shared libraries: (\S+?):|cannot open shared object file: (\S+)")
_GPU_COMPILE: Final = re.compile(
    r"the program does not compile|cudaError(?:NoKernelImageForDevice|InvalidKernelImage|InvalidPtx)|"
    r"no kernel image is available|device kernel image is invalid"
)
_OUT_OF_MEMORY: Final = re.compile(r"cudaErrorMemoryAllocation|out of memory|bad_alloc|OUT_OF_MEMORY", re.IGNORECASE)
_DATA: Final = re.compile(
    r"^.*(?:(?:can(?:not|'t)|could ?n[o']t|unable to|(?:fail|failed|failure) (?:to|in)|error) (?:open|find|load|read|locate)|error reading|error opening|"
    r"No such file|file not found|cannot be opened|could not be opened|file opens? fail|(?<!\w)file error|failed to recognize format|can't cd to|not found: \S+\.\w+).*$",
    re.IGNORECASE | re.MULTILINE,
)
_USAGE: Final = re.compile(r"^\s*usage\b.*$|^.*\bplease (?:supply|specify|provide)\b.*$", re.IGNORECASE | re.MULTILINE)
_NO_SUCH: Final = re.compile(r"^.*No such file or directory.*$", re.MULTILINE)
_CUDA_TEXTS: Final = (
    "invalid argument|initialization error|invalid configuration argument|invalid device symbol|invalid device function|"
    "invalid device ordinal|invalid resource handle|an illegal memory access was encountered|"
    "too many resources requested for launch|the launch timed out|device-side assert triggered|"
    "unspecified launch failure|too many blocks in cooperative launch|operation not supported|"
    "no CUDA-capable device is detected|CUDA driver version is insufficient|unknown error|misaligned address|"
    "API call is not supported"
)
_RUNTIME: Final = re.compile(
    rf"cudaError[A-Z]\w+|CUDA_ERROR_\w+|CUDA error.*|GPUassert:.*|{_CUDA_TEXTS}", re.IGNORECASE
)
_OURS: Final = re.compile(r"^virtio-gpu-compute: .*$", re.MULTILINE)
"""Text of the guest's runtime itself."""
_TOLD: Final = re.compile(r"CUDA error.*|GPUassert:.*|cudaError[A-Z]\w+")
_WRONG: Final = re.compile(
    r"\b(?:FAIL|FAILED|FAILURE|FAILS)\b|\bmismatch(?:es|ed)?\b|\bincorrect\b|\bwrong\b|\bnot equal\b|\berror(?:s)? (?:detected|found)\b|"
    r"verification (?:failed|error)|do(?:es)? not match|invalid result|Test failed|\bInvalid\b|Non-Matching",
    re.IGNORECASE,
)
_RIGHT: Final = re.compile(
    r"\bPASS(?:ED|ES)?\b|\bsuccess(?:ful|fully)?\b|test passed|\bcorrect\b|\bverified\b|results? match|\bmatch(?:es)?\b|"
    r"\bOK\b|no errors?\b|validation: true",
    re.IGNORECASE,
)
_RETURNED: Final = re.compile(r"completed, returned OK\b")
"""Last words of NVIDIA's samples that check themselves, whatever they printed before."""
_NO_DIFFERENCE: Final = r"Non-Matching [^:\n]*Outputs Beyond Error Threshold[^:\n]*: 0\b"
"""All that PolyBench's programs say of results that are right."""
_HARMLESS: Final = re.compile(
    r"\b(?:no|zero|0|without|number of|#|num) ?(?:of )?(?:non-matching|errors?|mismatch(?:es)?|(?:failures|failed|fails|fail)|wrong)\b|"
    r"(?:errors?|mismatch(?:es)?|(?:failed|failures|fail)|wrong\w*|incorrect\w*)[\w ()-]{0,24}[:=] *(?:0|none|no)\b(?!\.\d*[1-9])|"
    rf"{_NO_DIFFERENCE}|\bif (?:it )?fail\w*|\bfail[- ]?(?:safe|over|fast)",
    re.IGNORECASE,
)
"""Phrases with words of failure that say that there was none."""


_NOT_OURS: Final = frozenset({Cause.OUTSIDE, Cause.FOREIGN, Cause.FILE, Cause.ARGUMENTS, Cause.EXERCISE})
"""Causes that no GPU computing for VMs could mend."""


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:200]


def _last_line(text: str) -> str:
    return _first_line("\n".join(reversed(text.splitlines())))


def _failed(cause: Cause, detail: str) -> Verdict:
    status = Status.EXCLUDED if cause in _NOT_OURS else Status.FAILED
    return Verdict(status, cause, " ".join(detail.split())[:200])


def _missing(name: str) -> Verdict:
    """A header, package or library that is not there, by whose it is."""
    stem = name.replace("lib", "", 1) if name.startswith("lib") else name
    words = re.sub(r"[/._-]", " ", stem)
    if _OUTSIDE.search(words):
        return _failed(Cause.OUTSIDE, name)
    if _FOREIGN.search(words):
        return _failed(Cause.FOREIGN, name)
    if _LIBRARY.search(words) or not name.endswith((".h", ".hpp", ".cuh", ".inc", ".inl", ".cu")):
        return _failed(Cause.LIBRARY, name)
    return _failed(Cause.FILE, name)


def of_build(build: Finished) -> Verdict | None:
    """None: the build made its program."""
    text = build.output
    if build.stopped:
        return _failed(Cause.BUILD_TIME, f"after {build.seconds:.0f} s")
    if build.code == 0:
        found = _CMAKE_LEFT_OUT.search(text)
        return _missing(found[1] or found[2]) if found else None
    for pattern in (_HEADER, _CMAKE_MISSING, _CMAKE_TARGET, _NO_LIBRARY, _PYTHON, _NO_COMPILER):
        if found := pattern.search(text):
            return _missing(next(filter(None, found.groups())))
    if found := _DRIVER_API.search(text):
        return _failed(Cause.DRIVER_API, found[1] or found[2])
    if names := _UNDEFINED.findall(text):
        return _failed(Cause.LINK, min(names))
    if found := _OLD_CCCL.search(text):
        return _failed(Cause.CCCL, f"{found[2]}::{found[1]}" if found[1] else f"cub::{found[3]}")
    if errors := _COMPILE_ERROR.search(text):
        line = errors[0].strip()
        return _failed(Cause.COMPILE_GPU if _GPU_PART.search(text) else Cause.COMPILE_HOST, line)
    if found := _NO_FILE.search(text):
        return _failed(Cause.FILE, next(filter(None, found.groups())))
    fatal = _FATAL.search(text)
    return _failed(Cause.BUILD, fatal[0] if fatal else _last_line(text))


def _signal_of(run: Finished) -> str:
    """Name of the signal that ended the program, also if a shell or make tells of it; empty if none did."""
    number = -run.code if run.code < 0 else run.code - 128 if 128 < run.code < 160 else 0
    if found := re.search(r"\bError (1[2-5]\d)\b", run.output):
        number = int(found[1]) - 128
    names = {member.value: member.name for member in signal.Signals}
    if found := re.search(
        r"(Segmentation fault|Aborted|Floating point exception|Bus error|Illegal instruction)", run.output
    ):
        return found[1]
    return names.get(number, "")


def of_run(run: Finished, last_error: str = "") -> Verdict:
    """Verdict on a program that was built: the causes that are sure come before the program's own words.

    `last_error`: what the runtime tells of the program's last failed call. Programs that never ask are found out by it.
    """
    text = run.output
    if found := _LOADER.search(text):
        return _failed(Cause.RUN_SYMBOL, found[1] or found[2])
    if found := _SHARED.search(text):
        return _missing(found[1] or found[2])
    if found := _PYTHON.search(text):
        return _missing(found[1])
    if _WAIVED.search(text) and (run.code in {0, 2} or "Error 2" in text):
        return Verdict(Status.WAIVED, Cause.WAIVED, _line_with(_WAIVED, text))
    if run.code == _WAIVES and (found := _LACKS.search(text)) and not _RUNTIME.search(text):
        return Verdict(Status.WAIVED, Cause.WAIVED, found[0].strip()[:200])
    words = _HARMLESS.sub(" ", text)
    if run.code == 0 and not run.stopped:
        return _of_good_end(text, words, last_error)
    if sure := _of_device(text):
        return sure
    return _failed(Cause.TIME, f"after {run.seconds:.0f} s") if run.stopped else _of_bad_end(run, words, last_error)


def _of_device(text: str) -> Verdict | None:
    """Failure that the device tells, whatever the program makes of it."""
    if _GPU_COMPILE.search(text):
        found = _COMPILE_ERROR.search(text)
        return _failed(Cause.COMPILE_GPU, found[0] if found else _line_with(_GPU_COMPILE, text))
    if _OUT_OF_MEMORY.search(text):
        return _failed(Cause.MEMORY, _line_with(_OUT_OF_MEMORY, text))
    return None


def _of_good_end(text: str, words: str, last_error: str) -> Verdict:
    """Verdict on exit status 0: the program's words decide."""
    if _RETURNED.search(text) and not _of_device(text):
        return Verdict(Status.PASSED)
    if _WRONG.search(words) and (found := _NO_SUCH.search(text) or _DATA.search(_line_with(_WRONG, words))):
        return _failed(Cause.FILE, found[0])
    if _WRONG.search(words):
        wrong = _failed(Cause.RUNTIME if _RUNTIME.search(text) else Cause.WRONG, _line_with(_WRONG, words))
        if wrong.cause is Cause.WRONG and _RUNTIME.search(last_error):
            wrong = _failed(Cause.RUNTIME, last_error)
        return _of_device(text) or wrong
    if (found := _TOLD.search(text)) and "cudaSuccess" not in found[0]:
        return _of_device(text) or _failed(Cause.RUNTIME, found[0])
    if found := _OURS.search(text):
        return _of_device(text) or _failed(Cause.RUNTIME, found[0])
    if _RIGHT.search(words) or re.search(_NO_DIFFERENCE, text):
        return Verdict(Status.PASSED)
    if found := _DATA.search(text):
        return _failed(Cause.FILE, found[0])
    return _failed(Cause.RUNTIME, last_error) if last_error.strip() else Verdict(Status.RAN)


def _line_with(pattern: re.Pattern[str], text: str) -> str:
    return next((line.strip()[:200] for line in text.splitlines() if pattern.search(line)), "")


def _of_bad_end(run: Finished, words: str, last_error: str) -> Verdict:
    """Cause of a bad exit status."""
    text = run.output
    if found := _RUNTIME.search(text):
        return _failed(Cause.RUNTIME, _line_with(_RUNTIME, text) or found[0])
    if found := _DATA.search(text):
        return _failed(Cause.FILE, found[0])
    if name := _signal_of(run):
        return _failed(Cause.CRASH, name)
    if found := _USAGE.search(text):
        return _failed(Cause.ARGUMENTS, found[0])
    if re.search(r"mpi(?:exec|run).*not found", text):
        return _failed(Cause.OUTSIDE, "mpiexec")
    if _WRONG.search(words) and _RUNTIME.search(last_error):
        return _failed(Cause.RUNTIME, last_error)
    if _WRONG.search(words):
        return _failed(Cause.WRONG, _line_with(_WRONG, words))
    return _failed(Cause.EXIT, f"{run.code}: {_last_line(text)}")
