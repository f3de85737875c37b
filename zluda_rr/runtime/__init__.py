"""Running kernels: workloads, devices, comparison, verification and benchmarks."""

from zluda_rr.runtime.backend import Backend, HipBackend, LoweringBackend, ZludaBackend, choose_backend
from zluda_rr.runtime.bench import BenchReport, bench
from zluda_rr.runtime.compare import Difference, compare_outputs
from zluda_rr.runtime.demo import run_demo
from zluda_rr.runtime.device import MODELS, Device, EmulatorDevice, Execution, OracleDevice, Program, ZludaDevice
from zluda_rr.runtime.files import CompileReport, compile_file, rewrite_file
from zluda_rr.runtime.layer_tables import bench_rows_json, bench_table, verify_rows_json, verify_table
from zluda_rr.runtime.layers import Choice, FoundLayer, LayerRow, Result, each_layer, find_layers
from zluda_rr.runtime.progress import Progress
from zluda_rr.runtime.report import bench_json, bench_text, verify_text
from zluda_rr.runtime.selftest import run_selftest, selftest_json, selftest_text
from zluda_rr.runtime.stages import PhaseDifference, PhaseProbe, first_differing_phase, phase_probe
from zluda_rr.runtime.timing import TimingReport, time_variants, timing_json, timing_text
from zluda_rr.runtime.variants import Subject, subject
from zluda_rr.runtime.verify import VerifyReport, verify, verify_stage
from zluda_rr.runtime.weights import Region, RegionKind, WorkloadKind, weight_image
from zluda_rr.runtime.workload import Launch, Shape, Surface, build_launch
from zluda_rr.runtime.zluda import ZOC_VARIABLE, compile_with_zoc, zoc_path

__all__ = [
    "MODELS",
    "ZOC_VARIABLE",
    "Backend",
    "BenchReport",
    "Choice",
    "CompileReport",
    "Device",
    "Difference",
    "EmulatorDevice",
    "Execution",
    "FoundLayer",
    "HipBackend",
    "Launch",
    "LayerRow",
    "LoweringBackend",
    "OracleDevice",
    "PhaseDifference",
    "PhaseProbe",
    "Program",
    "Progress",
    "Region",
    "RegionKind",
    "Result",
    "Shape",
    "Subject",
    "Surface",
    "TimingReport",
    "VerifyReport",
    "WorkloadKind",
    "ZludaBackend",
    "ZludaDevice",
    "bench",
    "bench_json",
    "bench_rows_json",
    "bench_table",
    "bench_text",
    "build_launch",
    "choose_backend",
    "compare_outputs",
    "compile_file",
    "compile_with_zoc",
    "each_layer",
    "find_layers",
    "first_differing_phase",
    "phase_probe",
    "rewrite_file",
    "run_demo",
    "run_selftest",
    "selftest_json",
    "selftest_text",
    "subject",
    "time_variants",
    "timing_json",
    "timing_text",
    "verify",
    "verify_rows_json",
    "verify_stage",
    "verify_table",
    "verify_text",
    "weight_image",
    "zoc_path",
]
