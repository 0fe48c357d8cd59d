// What OpenMP's runtime reads from the environment once, when it is loaded.
#pragma once

namespace trainctl {

// GCC's OpenMP lets a thread that waits for others spin for milliseconds before it sleeps. Where
// another process holds one of the processors, every barrier then costs as much as that process's
// time slice, and training with two threads falls to a hundredth of its speed. This bounds the
// spinning to tens of microseconds, which serves as well on an idle machine. A setting of the
// user's own (OMP_WAIT_POLICY, GOMP_SPINCOUNT) holds. Call it before the engine is loaded.
void bound_spinning();

}  // namespace trainctl
