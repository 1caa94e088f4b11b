// The list of calls, put together.
#include "cases/operators.hpp"

namespace dlprim::test {

const std::vector<OperatorCall>& operator_calls() {
  static const std::vector<OperatorCall> calls = [] {
    std::vector<OperatorCall> all;
    for (const auto& family :
         {norms_and_losses(), products_and_windows(), elements_and_reductions(), movement_and_order()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return calls;
}

}  // namespace dlprim::test
