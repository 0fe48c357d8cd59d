// What the probes make of libraries that are missing, damaged, too old or of another version.
#include <gmock/gmock.h>

#include "doctor/library_probes.h"
#include "judging.h"

namespace trainctl::doctor {
namespace {

using ::testing::HasSubstr;

LibraryObject object(const std::string& path, const std::string& version, bool for_engine = false) {
  LibraryObject out;
  out.path = path;
  out.version = version;
  out.rule = "RUNPATH of libtrainctl_engine.so";
  out.needed_by = "libtrainctl_engine.so";
  out.for_engine = for_engine;
  return out;
}

LibraryEvidence whole() {
  LibraryEvidence e;
  e.engine = "/t/libtrainctl_engine.so";
  e.cuda_unit = "/t/libtrainctl_cuda.so";
  e.libtorch = "2.11.0+cu130";
  e.runtime_cuda = 13000;
  e.glibc = "2.36";
  e.glibcxx = "3.4.30";
  e.objects["libtorch_cpu.so"] = object("/t/torch/lib/libtorch_cpu.so", "2.11.0+cu130", true);
  e.objects["libcudart.so.13"] = object("/n/cu13/lib/libcudart.so.13", "13.0.96", true);
  e.objects["libstdc++.so.6"] = object("/lib/libstdc++.so.6", "6.0.30", true);
  e.objects["libnccl.so.2"] = object("/n/nccl/lib/libnccl.so.2", "2.28.9");
  e.objects["libcudnn.so.9"] = object("/n/cudnn/lib/libcudnn.so.9", "9.19.0");
  e.objects["libcudnn_ops.so.9"] = object("/n/cudnn/lib/libcudnn_ops.so.9", "9.19.0");
  return e;
}

struct LibraryCase {
  const char* name;
  void (*change)(LibraryEvidence*);
  const char* probe;
  const char* said;      // with --device auto
  const char* said_cpu;  // with --device cpu
  const char* words;
};

void miss(LibraryEvidence* e, const char* name) {
  e->objects[name].path = "";
  e->objects[name].brought_by = "the thing (PyPI: thing)";
}

const LibraryCase kCases[] = {
    {"Whole", [](LibraryEvidence*) {}, "libraries.missing", "ok", "ok", "6 found, none missing"},
    {"WholeCudnn", [](LibraryEvidence*) {}, "libraries.cudnn", "ok", "ok", "2 parts"},
    {"WholeVersions", [](LibraryEvidence*) {}, "libraries.cuda", "ok", "ok",
     "CUDA runtime 13.0.96, cuDNN 9.19.0, NCCL 2.28.9"},
    {"NoEngine",
     [](LibraryEvidence* e) {
       e->engine = "";
       e->engine_tried = "/a, /b";
     },
     "libraries.engine", "unfit engine-missing", "unfit engine-missing", "looked for /a, /b"},
    {"MissingForEngine", [](LibraryEvidence* e) { miss(e, "libcudart.so.13"); },
     "libraries.missing", "unfit library-missing", "unfit library-missing",
     "libcudart.so.13 (needed by libtrainctl_engine.so; comes with the thing (PyPI: thing))"},
    {"MissingForUnit", [](LibraryEvidence* e) { miss(e, "libnccl.so.2"); }, "libraries.missing",
     "unfit library-missing", "note library-missing", "1 missing: libnccl.so.2"},
    {"AllMissingAreNamed",
     [](LibraryEvidence* e) {
       miss(e, "libnccl.so.2");
       miss(e, "libcudart.so.13");
     },
     "libraries.missing", "unfit library-missing", "unfit library-missing",
     "2 missing: libcudart.so.13, libnccl.so.2"},
    {"Damaged", [](LibraryEvidence* e) { e->objects["libtorch_cpu.so"].problem = "is cut short"; },
     "libraries.damaged", "unfit library-damaged", "unfit library-damaged",
     "/t/torch/lib/libtorch_cpu.so is cut short"},
    {"OldGlibc",
     [](LibraryEvidence* e) {
       e->glibc = "2.31";
       e->objects["libtorch_cpu.so"].missing_versions = {"libc.so.6: GLIBC_2.32",
                                                         "libc.so.6: GLIBC_2.34"};
     },
     "libraries.system", "unfit glibc-too-old", "unfit glibc-too-old",
     "GLIBC_2.34 is needed, it has 2.31"},
    {"OldLibstdcxx",
     [](LibraryEvidence* e) {
       e->glibcxx = "3.4.28";
       e->objects["libtorch_cpu.so"].missing_versions = {"libstdc++.so.6: GLIBCXX_3.4.29"};
     },
     "libraries.system", "unfit libstdcxx-too-old", "unfit libstdcxx-too-old",
     "GLIBCXX_3.4.29 is needed, /lib/libstdc++.so.6 has GLIBCXX_3.4.28"},
    {"OtherLibTorch", [](LibraryEvidence* e) { e->libtorch = "2.6.0"; }, "libraries.libtorch",
     "unfit libtorch-version", "unfit libtorch-version", "LibTorch 2.6.0 is found"},
    {"CudnnPartsMixed",
     [](LibraryEvidence* e) {
       e->objects["libcudnn_ops.so.9"] = object("/old/libcudnn_ops.so.9", "9.1.0");
       e->objects["libcudnn_ops.so.9"].rule = "LD_LIBRARY_PATH";
     },
     "libraries.cudnn", "unfit cudnn-parts-mismatch", "note cudnn-parts-mismatch",
     "libcudnn_ops.so.9 9.1.0 (/old/libcudnn_ops.so.9, by LD_LIBRARY_PATH)"},
    {"CudnnPartMissing", [](LibraryEvidence* e) { miss(e, "libcudnn_ops.so.9"); },
     "libraries.cudnn", "unfit cudnn-part-missing", "note cudnn-part-missing", "libcudnn_ops.so.9"},
    {"CudnnWithoutPrecompiledEngines",
     [](LibraryEvidence* e) { miss(e, "libcudnn_engines_precompiled.so.9"); }, "libraries.cudnn",
     "ok", "ok", ""},
    {"OlderFirst",
     [](LibraryEvidence* e) {
       e->library_path = "/old";
       e->objects["libnccl.so.2"].version = "2.18.3";
       e->objects["libnccl.so.2"].instead_of = "/n/nccl/lib/libnccl.so.2";
       e->objects["libnccl.so.2"].instead_version = "2.28.9";
     },
     "libraries.search_path", "warning older-library-first", "warning older-library-first",
     "libnccl.so.2 2.18.3 (/n/nccl/lib/libnccl.so.2) instead of 2.28.9"},
    {"AnotherFirst",
     [](LibraryEvidence* e) {
       e->library_path = "/new";
       e->objects["libnccl.so.2"].instead_of = "/n/nccl/lib/libnccl.so.2";
       e->objects["libnccl.so.2"].instead_version = "2.28.9";
     },
     "libraries.search_path", "note library-shadowed", "note library-shadowed", "decides over 1"},
    {"HarmlessPath", [](LibraryEvidence* e) { e->library_path = "/tmp"; }, "libraries.search_path",
     "ok", "ok", "/tmp (changes nothing)"},
    {"ToolsAreOnlyForBuilding", [](LibraryEvidence*) {}, "libraries.tools", "ok", "ok",
     "nvcc none (only a build needs them)"},
};

class Libraries : public ::testing::TestWithParam<LibraryCase> {};

TEST_P(Libraries, AreJudged) {
  LibraryEvidence evidence = whole();
  GetParam().change(&evidence);
  const Finding finding = judge(libraries_group(), GetParam().probe, evidence);
  EXPECT_EQ(said(finding), GetParam().said);
  EXPECT_THAT(finding.found + "\n" + finding.cause + "\n" + finding.cure,
              HasSubstr(GetParam().words));
  EXPECT_EQ(said(judge(libraries_group(), GetParam().probe, evidence, for_cpu())),
            GetParam().said_cpu);
}

INSTANTIATE_TEST_SUITE_P(All, Libraries, ::testing::ValuesIn(kCases),
                         [](const auto& row) { return std::string(row.param.name); });

Finding unit_finding(int runtime_cuda, bool gpu, const std::string& device) {
  LibraryEvidence evidence = whole();
  evidence.cuda_unit = "";
  evidence.runtime_cuda = runtime_cuda;
  DoctorOptions options;
  options.device = device;
  const Json both = {{"libraries", to_evidence(evidence)}, {"driver", {{"gpu_present", gpu}}}};
  for (const Probe& probe : library_probes()) {
    if (std::string("libraries.cuda_unit") == probe.id) return probe.judge(both, options);
  }
  ADD_FAILURE();
  return {};
}

TEST(CudaUnit, IsMissedOnlyWhereAGpuIs) {
  EXPECT_EQ(said(unit_finding(13000, true, "auto")), "unfit cuda-unit-missing");
  EXPECT_EQ(said(unit_finding(0, true, "auto")), "unfit cpu-only-libtorch");
  EXPECT_EQ(said(unit_finding(13000, false, "auto")), "ok");
  EXPECT_EQ(said(unit_finding(13000, true, "cpu")), "ok");
}

TEST(LibrariesGroup, FindsThisProgramsOwnLibraries) {
  const Json evidence = libraries_group().gather({});
  EXPECT_TRUE(evidence["objects"].contains("libstdc++.so.6"));
  EXPECT_NE(evidence["glibc"], "");
  EXPECT_NE(evidence["glibcxx"], "");
}

}  // namespace
}  // namespace trainctl::doctor
