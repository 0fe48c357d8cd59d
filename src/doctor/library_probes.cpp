#include "doctor/library_probes.h"

#include <algorithm>
#include <array>

#include "doctor/library_versions.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

LibraryEvidence libraries_of(const Evidence& evidence) {
  return evidence_of<LibraryEvidence>(evidence, "libraries");
}

// What only the CUDA unit needs matters where a GPU is to be used.
Verdict verdict_for(const LibraryObject& object, const DoctorOptions& options) {
  return object.for_engine || options.device != "cpu" ? Verdict::kUnfit : Verdict::kNote;
}

using Named = std::pair<std::string, LibraryObject>;

template <class Which>
std::vector<Named> objects_where(const LibraryEvidence& evidence, Which which) {
  std::vector<Named> out;
  for (const auto& [name, object] : evidence.objects) {
    if (which(name, object)) out.emplace_back(name, object);
  }
  return out;
}

Verdict worst(const std::vector<Named>& objects, const DoctorOptions& options) {
  Verdict verdict = Verdict::kOk;
  for (const auto& [name, object] : objects) {
    verdict = std::max(verdict, verdict_for(object, options));
  }
  return verdict;
}

bool is_cudnn_part(const std::string& name) { return name.starts_with("libcudnn_"); }

Finding judge_engine(const Evidence& evidence, const DoctorOptions&) {
  const LibraryEvidence libraries = libraries_of(evidence);
  if (!libraries.engine.empty()) return {Verdict::kOk, libraries.engine, "", "", ""};
  return wrong(Verdict::kUnfit, "not found", "engine-missing", {{"tried", libraries.engine_tried}});
}

Finding judge_missing(const Evidence& evidence, const DoctorOptions& options) {
  const LibraryEvidence libraries = libraries_of(evidence);
  if (libraries.engine.empty()) return {};
  const auto missing =
      objects_where(libraries, [](const std::string& name, const LibraryObject& o) {
        return o.path.empty() && !is_cudnn_part(name);
      });
  const size_t all = libraries.objects.size();
  if (missing.empty())
    return {Verdict::kOk, std::to_string(all) + " found, none missing", "", "", ""};
  std::vector<std::string> names, told;
  for (const auto& [name, object] : missing) {
    names.push_back(name);
    told.push_back(name + " (needed by " + object.needed_by +
                   (object.brought_by.empty() ? "" : "; comes with " + object.brought_by) + ")");
  }
  return wrong(worst(missing, options),
               std::to_string(missing.size()) + " missing: " + join(names, ", "), "library-missing",
               {{"missing", join(told, ", ")}});
}

Finding judge_damaged(const Evidence& evidence, const DoctorOptions& options) {
  const auto damaged =
      objects_where(libraries_of(evidence), [](const std::string&, const LibraryObject& object) {
        return !object.path.empty() && !object.problem.empty();
      });
  if (damaged.empty()) return {};
  std::vector<std::string> told;
  for (const auto& [name, object] : damaged) told.push_back(object.path + " " + object.problem);
  return wrong(worst(damaged, options), std::to_string(damaged.size()) + " damaged",
               "library-damaged", {{"which", join(told, ", ")}});
}

// "libstdc++.so.6: GLIBCXX_3.4.30", the newest that is wanted of this family, or empty.
std::string newest_missing(const LibraryEvidence& libraries, bool glibc) {
  std::string newest;
  for (const auto& [name, object] : libraries.objects) {
    for (const std::string& text : object.missing_versions) {
      const std::string version = text.substr(text.find(": ") + 2);
      if (version.starts_with("GLIBC_") != glibc) continue;
      if (!glibc && !version.starts_with("GLIBCXX_") && !version.starts_with("CXXABI_")) continue;
      const auto number = [](const std::string& v) { return v.substr(v.find('_') + 1); };
      if (newest.empty() || compare_versions(number(newest), number(version)) < 0) newest = version;
    }
  }
  return newest;
}

Finding judge_system(const Evidence& evidence, const DoctorOptions&) {
  const LibraryEvidence libraries = libraries_of(evidence);
  const auto object = libraries.objects.find("libstdc++.so.6");
  const std::string path = object == libraries.objects.end() ? "" : object->second.path;
  const std::string found = "glibc " + libraries.glibc + ", libstdc++ GLIBCXX_" + libraries.glibcxx;
  if (const std::string needed = newest_missing(libraries, true); !needed.empty()) {
    return wrong(Verdict::kUnfit, found, "glibc-too-old",
                 {{"needed", needed}, {"found", libraries.glibc}});
  }
  if (const std::string needed = newest_missing(libraries, false); !needed.empty()) {
    return wrong(Verdict::kUnfit, found, "libstdcxx-too-old",
                 {{"needed", needed}, {"path", path}, {"found", "GLIBCXX_" + libraries.glibcxx}});
  }
  return {Verdict::kOk, found, "", "", ""};
}

Finding judge_libtorch(const Evidence& evidence, const DoctorOptions&) {
  const LibraryEvidence libraries = libraries_of(evidence);
  const auto object = libraries.objects.find("libtorch_cpu.so");
  if (object == libraries.objects.end() || object->second.path.empty()) return {};
  const std::string version =
      libraries.libtorch.empty() ? "of unknown version" : libraries.libtorch;
  const std::string found =
      version + " (" + object->second.path + ", by " + object->second.rule + ")";
  if (!libraries.libtorch.empty() && !libraries.libtorch.starts_with("2.11.")) {
    return wrong(Verdict::kUnfit, found, "libtorch-version",
                 {{"found", libraries.libtorch}, {"path", object->second.path}});
  }
  return {Verdict::kOk, found, "", "", ""};
}

Finding judge_unit(const Evidence& evidence, const DoctorOptions& options) {
  const LibraryEvidence libraries = libraries_of(evidence);
  if (libraries.engine.empty()) return {};
  if (!libraries.cuda_unit.empty()) return {Verdict::kOk, libraries.cuda_unit, "", "", ""};
  const bool gpu = evidence.contains("driver") && evidence.at("driver").value("gpu_present", false);
  const std::string found =
      libraries.runtime_cuda == 0 ? "none: LibTorch's CPU-only build" : "none";
  if (!gpu || options.device == "cpu") {
    return {options.device == "cuda" ? Verdict::kUnfit : Verdict::kOk, found, "", "", ""};
  }
  return wrong(Verdict::kUnfit, found,
               libraries.runtime_cuda == 0 ? "cpu-only-libtorch" : "cuda-unit-missing");
}

Finding judge_cuda_libraries(const Evidence& evidence, const DoctorOptions&) {
  struct Row {
    const char* object;
    const char* title;
  };
  constexpr Row kRows[] = {{"libcudart.so", "CUDA runtime"},
                           {"libcublas.so", "cuBLAS"},
                           {"libcudnn.so", "cuDNN"},
                           {"libnccl.so", "NCCL"}};
  const LibraryEvidence libraries = libraries_of(evidence);
  std::vector<std::string> told;
  for (const Row& row : kRows) {
    for (const auto& [name, object] : libraries.objects) {
      if (!name.starts_with(row.object) || object.path.empty()) continue;
      told.push_back(std::string(row.title) + " " +
                     (object.version.empty() ? "of unknown version" : object.version));
    }
  }
  return {Verdict::kOk, join(told, ", "), "", "", ""};
}

Finding judge_cudnn(const Evidence& evidence, const DoctorOptions& options) {
  const LibraryEvidence libraries = libraries_of(evidence);
  const auto parts = objects_where(libraries, [](const std::string& name, const LibraryObject& o) {
    return name.starts_with("libcudnn.so") || (is_cudnn_part(name) && !o.path.empty());
  });
  const auto missing =
      objects_where(libraries, [](const std::string& name, const LibraryObject& o) {
        // Precompiled engines may be left out on purpose: cuDNN then compiles them.
        return is_cudnn_part(name) && o.path.empty() &&
               !name.starts_with("libcudnn_engines_precompiled");
      });
  if (parts.empty() || parts[0].second.path.empty()) return {};
  const Verdict verdict = options.device == "cpu" ? Verdict::kNote : Verdict::kUnfit;
  std::vector<std::string> told;
  for (const auto& [name, object] : missing) told.push_back(name);
  if (!missing.empty()) {
    return wrong(verdict, std::to_string(missing.size()) + " parts missing", "cudnn-part-missing",
                 {{"parts", join(told, ", ")}});
  }
  const LibraryObject& main = parts[0].second;
  for (const auto& [name, object] : parts) {
    const bool same_folder =
        fs::path(object.path).parent_path() == fs::path(main.path).parent_path();
    if (object.version == main.version && (same_folder || !main.version.empty())) continue;
    told.push_back(name + " " + object.version + " (" + object.path + ", by " + object.rule + ")");
  }
  if (told.empty())
    return {Verdict::kOk, std::to_string(parts.size()) + " parts, of one version", "", "", ""};
  return wrong(
      verdict, "parts of different versions", "cudnn-parts-mismatch",
      {{"parts", "libcudnn " + main.version + " (" + main.path + "), but " + join(told, ", ")}});
}

Finding judge_search_path(const Evidence& evidence, const DoctorOptions&) {
  const LibraryEvidence libraries = libraries_of(evidence);
  std::vector<std::string> older, others;
  for (const auto& [name, object] : libraries.objects) {
    if (object.instead_of.empty()) continue;
    const bool known = !object.version.empty() && !object.instead_version.empty();
    const int order = known ? compare_versions(object.version, object.instead_version) : 1;
    const auto of = [](const std::string& version) { return version.empty() ? "" : " " + version; };
    (order < 0 ? older : others)
        .push_back(name + of(object.version) + " (" + object.path + ") instead of" +
                   of(object.instead_version) + " " + object.instead_of);
  }
  if (libraries.library_path.empty()) return {Verdict::kOk, "not set", "", "", ""};
  if (!older.empty()) {
    return wrong(Verdict::kWarning, std::to_string(older.size()) + " older libraries come first",
                 "older-library-first", {{"which", join(older, ", ")}});
  }
  if (!others.empty()) {
    return wrong(Verdict::kNote, "decides over " + std::to_string(others.size()) + " libraries",
                 "library-shadowed", {{"which", join(others, ", ")}});
  }
  return {Verdict::kOk, libraries.library_path + " (changes nothing)", "", "", ""};
}

Finding judge_tools(const Evidence& evidence, const DoctorOptions&) {
  const LibraryEvidence libraries = libraries_of(evidence);
  // Nothing that runs needs them: worth a word, not a finding.
  const auto or_none = [](const std::string& path) { return path.empty() ? "none" : path; };
  return {Verdict::kOk,
          "C++ compiler " + std::string(or_none(libraries.compiler)) + ", nvcc " +
              or_none(libraries.nvcc) +
              (libraries.compiler.empty() || libraries.nvcc.empty() ? " (only a build needs them)"
                                                                    : ""),
          "", "", ""};
}

constexpr std::array kProbes = {
    Probe{"libraries.engine", "engine", judge_engine},
    Probe{"libraries.missing", "shared objects", judge_missing},
    Probe{"libraries.damaged", "damaged objects", judge_damaged},
    Probe{"libraries.system", "system libraries", judge_system},
    Probe{"libraries.libtorch", "LibTorch", judge_libtorch},
    Probe{"libraries.cuda_unit", "CUDA unit", judge_unit},
    Probe{"libraries.cuda", "CUDA libraries", judge_cuda_libraries},
    Probe{"libraries.cudnn", "cuDNN's parts", judge_cudnn},
    Probe{"libraries.search_path", "LD_LIBRARY_PATH", judge_search_path},
    Probe{"libraries.tools", "build tools", judge_tools},
};

}  // namespace

std::span<const Probe> library_probes() { return kProbes; }

}  // namespace trainctl::doctor
