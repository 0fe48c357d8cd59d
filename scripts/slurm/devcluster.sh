#!/usr/bin/env bash
# A real Slurm on one machine, to try job scripts: munged, slurmctld and one slurmd per node. As root,
# without systemd, cgroups or a database; everything it writes lies in one folder. Every node has a
# host name of its own (its own UTS and mount namespace); they share the machine's network.
#   scripts/slurm/devcluster.sh start FOLDER    and then:  export SLURM_CONF=FOLDER/slurm.conf
#   scripts/slurm/devcluster.sh status FOLDER
#   scripts/slurm/devcluster.sh stop FOLDER
# DEVCLUSTER_NODES (2) and DEVCLUSTER_CPUS (4, per node, need not exist) change its size.
set -euo pipefail

usage() {
  sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

die() {
  printf 'devcluster.sh: %s\n' "$1" >&2
  [[ $# -lt 2 ]] || printf 'What to do: %s\n' "$2" >&2
  exit 3
}

[[ $# -eq 2 ]] || usage
COMMAND=$1
mkdir -p "$2" || die "the folder $2 cannot be made."
DIR=$(cd "$2" && pwd)
NODES=${DEVCLUSTER_NODES:-2}
CPUS=${DEVCLUSTER_CPUS:-4}
export SLURM_CONF=$DIR/slurm.conf
# A shell inside a job has variables that would lead these commands astray.
unset SLURM_JOB_ID SLURM_JOBID SLURM_NODELIST SLURM_STEP_ID

check_machine() {
  [[ $(id -u) -eq 0 ]] || die "slurmd starts jobs for others and needs root." "run it as root, in a container for instance."
  local tool
  for tool in munged slurmctld slurmd sbatch unshare; do
    command -v "$tool" >/dev/null ||
      die "$tool is not installed." "apt-get install --no-install-recommends slurmctld slurmd slurm-client munge util-linux"
  done
  unshare --mount --uts true 2>/dev/null ||
    die "namespaces may not be made here." "give the container CAP_SYS_ADMIN (docker run --privileged)."
}

# free_ports COUNT: the first of so many free ports in a row.
free_ports() {
  local first port
  for ((first = 21000 + RANDOM % 8000; ; first += $1)); do
    for ((port = first; port < first + $1; ++port)); do
      ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || continue 2
    done
    echo "$first"
    return
  done
}

# cred_expire is also how long a requeued job waits before it starts again (120 s otherwise).
write_config() {
  local first
  first=$(free_ports $((NODES + 1)))
  cat >"$SLURM_CONF" <<TEXT
ClusterName=devcluster
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$first
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$DIR/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation=$DIR/state
SlurmdSpoolDir=$DIR/spool/%n
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmdPidFile=$DIR/slurmd.%n.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdLogFile=$DIR/log/slurmd.%n.log
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=10
MinJobAge=3600
JobRequeue=1
NodeName=n[1-$NODES] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((first + 1))-$((first + NODES))] CPUs=$CPUS RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
TEXT
}

# daemon NAME COMMAND…: in the background, with its number in NAME.pid.
daemon() {
  local name=$1
  shift
  setsid "$@" </dev/null >"$DIR/log/$name.out" 2>&1 &
  echo $! >"$DIR/$name.pid"
}

start_node() {
  local name=$1
  mkdir -p "$DIR/spool/$name"
  # shellcheck disable=SC2016
  daemon "slurmd.$name" unshare --mount --uts --propagation slave bash -c '
    hostname "$1" && mount --bind "$2" /etc/hosts && exec slurmd -D -N "$1"' _ "$name" "$DIR/hosts"
}

running() { [[ -s $1 ]] && kill -0 "$(cat "$1")" 2>/dev/null; }

wait_until_ready() {
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    [[ $(sinfo -h -t idle -o %D 2>/dev/null) == "$NODES" ]] && return
    sleep 0.2
  done
  tail -n 5 "$DIR"/log/* >&2
  die "the cluster does not come up (logs in $DIR/log)."
}

start() {
  check_machine
  ! running "$DIR/slurmctld.pid" || die "it runs already." "$0 stop $DIR"
  mkdir -p "$DIR/log" "$DIR/state" "$DIR/spool"
  chmod 755 "$DIR"
  write_config
  { cat /etc/hosts && for ((i = 1; i <= NODES; ++i)); do echo "127.0.0.1 n$i"; done; } >"$DIR/hosts"
  [[ -s $DIR/munge.key ]] || (umask 077 && head -c 1024 /dev/urandom >"$DIR/munge.key")
  daemon munged munged --foreground --force --key-file "$DIR/munge.key" --socket "$DIR/munge.socket" \
    --pid-file "$DIR/munged.real.pid" --log-file "$DIR/log/munged.log" --seed-file "$DIR/munge.seed"
  daemon slurmctld slurmctld -D -c
  local i
  for ((i = 1; i <= NODES; ++i)); do start_node "n$i"; done
  wait_until_ready
  echo "export SLURM_CONF=$SLURM_CONF"
}

stop() {
  local name pid tries
  if running "$DIR/slurmctld.pid"; then
    scancel --state=RUNNING --state=PENDING --user=root 2>/dev/null || true
    for ((tries = 0; tries < 50; ++tries)); do
      [[ -n $(squeue -h 2>/dev/null) ]] || break
      sleep 0.2
    done
  fi
  for name in "$DIR"/slurmd.*.pid "$DIR/slurmctld.pid" "$DIR/munged.pid"; do
    running "$name" || { rm -f "$name" && continue; }
    pid=$(cat "$name")
    kill "$pid" 2>/dev/null || true
    for ((tries = 0; tries < 50; ++tries)); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null || true
    rm -f "$name"
  done
}

status() {
  running "$DIR/slurmctld.pid" || die "no cluster runs in $DIR."
  sinfo && squeue
}

case $COMMAND in
  start | stop | status) "$COMMAND" ;;
  *) usage ;;
esac
