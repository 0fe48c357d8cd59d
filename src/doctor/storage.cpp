// Where a run would write: is it there, is there room, how fast is it, who else sees it.
#include <algorithm>
#include <array>
#include <cstdio>

#include "doctor/groups.h"
#include "doctor/storage_evidence.h"
#include "trainctl/base/strings.h"

namespace trainctl::doctor {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kGiB = 1 << 30;

StorageEvidence storage_of(const Evidence& evidence) {
  return evidence_of<StorageEvidence>(evidence, "storage");
}

std::string bytes_text(int64_t bytes) {
  return human_bytes(static_cast<uint64_t>(std::max<int64_t>(0, bytes)));
}

Finding fine(const std::string& found, Verdict verdict = Verdict::kOk) {
  return {verdict, found, "", "", ""};
}

Facts facts_of(const Folder& folder) {
  return {{"folder", folder.path},       {"at", folder.nearest},
          {"why", folder.problem},       {"free", bytes_text(folder.free)},
          {"mount", folder.mount_point}, {"kind", folder.file_system}};
}

Finding judge_output(const Evidence& evidence, const DoctorOptions&) {
  const StorageEvidence storage = storage_of(evidence);
  const Folder& output = storage.output;
  const std::string name = "'" + output.path + "'";
  if (output.read_only)
    return wrong(Verdict::kUnfit, name + " is read-only", "output-read-only", facts_of(output));
  if (!output.problem.empty()) {
    return wrong(Verdict::kUnfit, name + ": " + output.problem, "output-not-writable",
                 facts_of(output));
  }
  return fine(output.exists ? name : name + ", to be made in '" + output.nearest + "'");
}

Finding judge_space(const Evidence& evidence, const DoctorOptions&) {
  const Folder output = storage_of(evidence).output;
  if (output.total == 0) return fine("not known", Verdict::kNote);
  const std::string found = bytes_text(output.free) + " free of " + bytes_text(output.total);
  if (output.free >= kGiB) return fine(found);
  return wrong(output.free < 16 * kMiB ? Verdict::kUnfit : Verdict::kWarning, found, "disk-full",
               facts_of(output));
}

Finding judge_files(const Evidence& evidence, const DoctorOptions&) {
  const Folder output = storage_of(evidence).output;
  if (output.files_total <= 0) return fine("no fixed number");
  const std::string count = std::to_string(output.files_free);
  if (output.files_free >= 1000) return fine(count + " more may be made");
  Facts facts = facts_of(output);
  facts.emplace_back("count", count);
  return wrong(output.files_free < 16 ? Verdict::kUnfit : Verdict::kWarning,
               "only " + count + " more may be made", "inodes-few", facts);
}

Finding judge_quota(const Evidence& evidence, const DoctorOptions&) {
  const StorageEvidence storage = storage_of(evidence);
  const Folder& output = storage.output;
  if (output.quota_left < 0) return fine("none known");
  const std::string found =
      bytes_text(output.quota_left) + " left of " + bytes_text(output.quota_limit);
  if (output.quota_left >= kGiB) return fine(found);
  Facts facts = facts_of(output);
  facts.emplace_back("left", bytes_text(output.quota_left));
  return wrong(output.quota_left < 16 * kMiB ? Verdict::kUnfit : Verdict::kWarning, found,
               "quota-low", facts);
}

enum class Kind { kLocal, kShared, kMemory, kContainer };

Kind kind_of(const std::string& type) {
  static constexpr const char* kShared[] = {
      "nfs",          "lustre",         "gpfs",       "ceph",      "fuse.ceph",
      "beegfs",       "fhgfs",          "cifs",       "smb",       "9p",
      "afs",          "panfs",          "wekafs",     "pvfs2",     "orangefs",
      "glusterfs",    "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse",
      "fuse.juicefs", "fuse.daos",      "virtiofs"};
  for (const char* shared : kShared) {
    if (type.starts_with(shared)) return Kind::kShared;
  }
  if (type == "tmpfs" || type == "ramfs") return Kind::kMemory;
  if (type == "overlay" || type == "aufs") return Kind::kContainer;
  return Kind::kLocal;
}

Finding judge_kind(const Evidence& evidence, const DoctorOptions&) {
  const StorageEvidence storage = storage_of(evidence);
  const std::string& type = storage.output.file_system;
  if (type.empty()) return fine("not known", Verdict::kNote);
  Facts facts = facts_of(storage.output);
  const std::string where = type + " at " + storage.output.mount_point;
  switch (kind_of(type)) {
    case Kind::kMemory:
      return wrong(Verdict::kWarning, "in memory: " + where, "output-in-memory", facts);
    case Kind::kContainer:
      return wrong(Verdict::kWarning, "the container's own: " + where, "output-in-container",
                   facts);
    case Kind::kShared:
      return fine("shared: " + where);
    case Kind::kLocal:
      break;
  }
  if (storage.job_nodes <= 1) return fine("local: " + where);
  facts.emplace_back("nodes", std::to_string(storage.job_nodes));
  return wrong(Verdict::kWarning, "local: " + where, "output-not-shared", facts);
}

Finding judge_speed(const Evidence& evidence, const DoctorOptions&) {
  const StorageEvidence storage = storage_of(evidence);
  const WriteTrial& trial = storage.trial;
  Facts facts = facts_of(storage.output);
  if (!trial.problem.empty()) {
    facts.emplace_back("trouble", trial.problem);
    return wrong(Verdict::kUnfit, "writing fails: " + trial.problem, "write-fails", facts);
  }
  if (trial.bytes == 0 || trial.seconds <= 0) return fine("not measured");
  const double rate = static_cast<double>(trial.bytes) / trial.seconds / static_cast<double>(kMiB);
  char text[64];
  std::snprintf(text, sizeof text, rate < 10 ? "%.1f MiB/s" : "%.0f MiB/s", rate);
  if (rate >= 20) return fine(text);
  facts.emplace_back("rate", text);
  return wrong(Verdict::kWarning, text, "write-slow", facts);
}

Finding judge_temporary(const Evidence& evidence, const DoctorOptions&) {
  const StorageEvidence storage = storage_of(evidence);
  const Folder& folder = storage.temporary;
  Facts facts = facts_of(folder);
  facts.emplace_back("source", storage.temporary_named ? "TMPDIR" : "by default");
  const std::string name = "'" + folder.path + "'";
  std::string trouble = folder.read_only ? "read-only" : folder.problem;
  if (trouble.empty() && !folder.exists) trouble = "there is no such folder";
  if (trouble.empty() && folder.total > 0 && folder.free < 64 * kMiB)
    trouble = "only " + bytes_text(folder.free) + " free";
  if (trouble.empty()) return fine(name);
  facts.emplace_back("trouble", trouble);
  return wrong(Verdict::kWarning, name + ": " + trouble, "tmpdir-unusable", facts);
}

constexpr std::array kProbes = {
    Probe{"storage.output", "output folder", judge_output},
    Probe{"storage.space", "room", judge_space},
    Probe{"storage.files", "files", judge_files},
    Probe{"storage.quota", "quota", judge_quota},
    Probe{"storage.kind", "file system", judge_kind},
    Probe{"storage.speed", "writing", judge_speed},
    Probe{"storage.temporary", "temporary folder", judge_temporary},
};

Json gather(const DoctorOptions& options) { return to_evidence(gather_storage(options)); }

}  // namespace

Group storage_group() { return {"storage", gather, kProbes, true}; }

}  // namespace trainctl::doctor
