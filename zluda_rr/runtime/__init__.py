"""Running kernels: workloads, devices, comparison, verification and benchmarks."""

from zluda_rr.runtime.bench import BenchReport, bench
from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.demo import run_demo
from zluda_rr.runtime.device import Device, EmulatorDevice, Execution, OracleDevice, Program
from zluda_rr.runtime.files import CompileReport, compile_file, rewrite_file
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.report import bench_json, bench_text, verify_text
from zluda_rr.runtime.stages import PhaseDifference, PhaseProbe, first_differing_phase, phase_probe
from zluda_rr.runtime.variants import Subject, subject
from zluda_rr.runtime.verify import MODELS, VerifyReport, verify, verify_stage
from zluda_rr.runtime.weights import Region, RegionKind, WorkloadKind, weight_image
from zluda_rr.runtime.workload import Launch, Shape, build_launch

__all__ = [
    "MODELS",
    "BenchReport",
    "CompileReport",
    "Device",
    "Difference",
    "EmulatorDevice",
    "Execution",
    "Launch",
    "OracleDevice",
    "PhaseDifference",
    "PhaseProbe",
    "Program",
    "Progress",
    "Region",
    "RegionKind",
    "Shape",
    "Subject",
    "VerifyReport",
    "WorkloadKind",
    "bench",
    "bench_json",
    "bench_text",
    "build_launch",
    "compare_outputs",
    "compile_file",
    "first_differing_phase",
    "phase_probe",
    "rewrite_file",
    "run_demo",
    "subject",
    "verify",
    "verify_stage",
    "verify_text",
    "weight_image",
]
