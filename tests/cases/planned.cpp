// The list of plans and calls, put together.
#include "cases/planned.hpp"

namespace dlprim::test {

std::vector<PlannedOperator> planned_operators() {
  std::vector<PlannedOperator> all;
  for (const auto& family :
       {planned_products(), planned_norms(), planned_losses(), planned_elements(), planned_training(),
        planned_windows(), planned_movement(), planned_choices(), planned_order()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace dlprim::test
