#include "base/explain_chapters.h"

namespace trainctl {

std::span<const ExplanationRow> storage_explanations() {
  static const ExplanationRow kRows[] = {
      {"output-read-only",
       "The output folder lies on a read-only file system",
       {"read-only file system"},
       "'{folder}' lies on {mount} ({kind}), which is mounted read-only; a disk with errors "
       "becomes "
       "read-only by itself",
       "choose another folder with run.output_dir (doctor: --output-dir), or mount it writable; "
       "dmesg tells about disk errors",
       "findmnt -T FOLDER"},
      {"output-not-writable",
       "Nothing can be written to the output folder",
       {},
       "in '{at}' nothing can be made for '{folder}': {why}",
       "give the folder to the user who runs trainctl (in a container its user number counts), or "
       "choose another with run.output_dir (doctor: --output-dir)",
       "ls -ld FOLDER; id"},
      {"disk-full",
       "The disk is full or nearly so",
       {"no space left on device"},
       "{free} are free at {mount}; a checkpoint takes 12 bytes for each parameter with AdamW, and "
       "checkpoint.keep_latest of them are kept, one more while it is written",
       "free some space, lower checkpoint.keep_latest, or set run.output_dir elsewhere; 'trainctl "
       "run CONFIG --dry-run' says how large the model is",
       "df -h FOLDER"},
      {"inodes-few",
       "The file system has no more room for files",
       {},
       "{mount} can hold {count} more files, whatever space is free",
       "remove small files that nobody needs, or set run.output_dir elsewhere",
       "df -i FOLDER"},
      {"quota-low",
       "The quota is used up or nearly so",
       {"disk quota exceeded"},
       "of this user's or group's quota at {mount} {left} are left",
       "remove what is not needed, ask for a larger quota, or set run.output_dir elsewhere",
       "quota -s; lfs quota, mmlsquota, beegfs-ctl on their file systems"},
      {"output-in-memory",
       "The output folder lies in memory",
       {},
       "'{folder}' lies on {mount} ({kind}): checkpoints take memory there, and are gone after a "
       "restart of the machine or container",
       "choose a folder on a disk with run.output_dir",
       "findmnt -T FOLDER"},
      {"output-in-container",
       "The output folder goes with the container",
       {},
       "'{folder}' lies in the container's own layer ({kind}): it is slow, and gone with the "
       "container",
       "mount a folder of the host (docker run -v /data/runs:/runs) or a volume, and set "
       "run.output_dir to it",
       "findmnt -T FOLDER"},
      {"output-not-shared",
       "The output folder is local to this node",
       {},
       "this job has {nodes} nodes, and '{folder}' lies on {mount} ({kind}), which only this one "
       "sees: a run cannot continue from its checkpoints on the others",
       "set run.output_dir to a folder that all nodes share",
       "findmnt -T FOLDER, on each node"},
      {"write-fails",
       "A trial of writing to the output folder failed",
       {},
       "a file written to '{at}' for trial ended with: {trouble}",
       "look at the space, the quota and ulimit -f, or choose another folder with run.output_dir",
       "dd if=/dev/zero of=FOLDER/trial bs=1M count=64 conv=fsync"},
      {"write-slow",
       "Writing to the output folder is slow",
       {},
       "'{at}' takes {rate} of what is forced to the disk; every checkpoint waits for that",
       "choose a faster folder with run.output_dir, or make checkpoints rarer "
       "(checkpoint.interval)",
       "dd if=/dev/zero of=FOLDER/trial bs=1M count=64 oflag=dsync"},
      {"tmpdir-unusable",
       "The folder for temporary files is not usable",
       {},
       "temporary files go to '{folder}' ({source}), and there: {trouble}; trainctl launch keeps "
       "its logs there when no --log-dir is given, and MPI and compilers their files",
       "set TMPDIR to a folder that is there and can be written to",
       "echo $TMPDIR; df -h ${TMPDIR:-/tmp}"},
  };
  return kRows;
}

}  // namespace trainctl
