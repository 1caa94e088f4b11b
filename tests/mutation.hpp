// Mutations: outputs of an operator are spoilt on the device as soon as it ends, and a test that reads one
// must fail. scripts/mutate runs the programs so and tells what no test caught. The environment says what is
// done. DLPRIM_TEST_MUTATE:
//   record   nothing is spoilt, the outputs that tests read are listed
//   zeros    every element is zero
//   first    every element is the first
//   one      the element of the largest magnitude is off by 1 %: by 4 units in the last place where it is
//            bf16, by 1 where it is an integer
//   row      the last slice along the first axis of more than one is as before the run
// DLPRIM_TEST_MUTATE_PLAN names a file with the outputs to spoil, a line for each: number, tab, the
// operator's text in the log. The number is the tensor's among those that the operator's launches take.
// DLPRIM_TEST_MUTATE_REPORT names the file for the result, a line for an output and a test case that reads
// it: operator, number, text, test case, and "read", "same" (the mutation changed no value), "passed" or
// "caught" (an assertion failed after the output had been read).
//
// Operators are named as in the log; "copy" and "fill" are apart from the other uses of pointwise.
#pragma once

#include <string>

#include <dlprim/tensor.hpp>

namespace dlprim::test {

/// Starts it, if the environment asks: before the first operator.
void start_mutations();

/// What Catch2 tells of a run (listener.cpp).
void mutated_test_starts(const std::string& name);
void mutated_test_ends();
void mutated_assertion_starts();
void mutated_assertion_failed();

/// While it lives, operators are the tests' own means and none is spoilt.
class OwnMeans {
 public:
  OwnMeans();
  ~OwnMeans();
  OwnMeans(const OwnMeans&) = delete;
  OwnMeans& operator=(const OwnMeans&) = delete;
};

}  // namespace dlprim::test
