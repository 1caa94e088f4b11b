// The queues of living streams, which the process waits for when it ends. A driver must not be at work while
// it takes itself apart: PoCL compiles a kernel's work groups in its queues' threads, with an LLVM that
// exit() destroys.
#pragma once

#include <memory>

namespace dlprim::detail {

struct QueueState;

/// Waits for the queue when the process ends, if it still exists then.
void finish_at_the_end(const std::shared_ptr<QueueState>& queue);

/// To be called when commands of a queue are seen to be done. Where another thread than the first calls
/// exit(), queues are waited for by a handler; handlers run in the reverse order of registration, so that it
/// has to come after what a driver registers when it compiles its first kernel.
void first_commands_done();

}  // namespace dlprim::detail
