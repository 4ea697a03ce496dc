//===- StageRoles.h - Functions of stages and their roles -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of functions that clauses of a schedule name, and the roles that
// arguments and results of each kind can have.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_STAGEROLES_H
#define PIPESCHED_DIALECT_PIPE_IR_STAGEROLES_H

#include "PipeSched/Support/EnumNames.h"

namespace pipesched::pipe {

/// The kind of a function; the name equals the name of its clause.
enum class StageFunctionKind {
  Init,
  Forward,
  Recompute,
  Backward,
  InputGradient,
  WeightGradient,
  Update,
  Shard,
  ShardBackward,
  Data,
  Target,
  Loss
};

/// The role of an argument or result; the attribute is `pipe.` and the name.
enum class StageRole {
  Param,
  Input,
  Output,
  Residual,
  OutputGradient,
  InputGradient,
  Gradient,
  State,
  Target,
  Loss,
  Microbatch,
  Slice,
  Step,
  Earlier,
  EarlierGradient,
  Shard,
  LastOutput,
  LastOutputGradient,
  Partial,
  Partials
};

/// The attribute next to `pipe.param` that ties parameters of several stages.
/// Parameters whose attributes have the same text are one parameter.
inline constexpr llvm::StringLiteral kTiedAttrName = "pipe.tied";

/// Attributes of an op in a function that pipe-outline-stages cuts: the number
/// of its stage, and the name of a StageFunctionKind.
inline constexpr llvm::StringLiteral kStageAttrName = "pipe.stage";
inline constexpr llvm::StringLiteral kPhaseAttrName = "pipe.phase";

/// Where a role may be in a function.
enum class RolePlace : uint8_t { Nowhere = 0, Argument = 1, Result = 2 };

/// Whether a function of this kind may have an argument (or a result) of this
/// role (the table of docs/Stages.md).
bool mayHaveRole(StageFunctionKind kind, StageRole role, RolePlace place);

/// Whether several arguments or results of a function may have the role. They
/// then have names: the name that the attribute states, else their position.
bool isNamedRole(StageRole role);

} // namespace pipesched::pipe

namespace pipesched {

template <>
struct EnumNames<pipe::StageFunctionKind> {
  using Kind = pipe::StageFunctionKind;
  static constexpr EnumName<Kind> values[] = {
      {Kind::Init, "init", "Makes the parameters of a stage"},
      {Kind::Forward, "forward", "Computes a stage's output and residuals"},
      {Kind::Recompute, "recompute", "Computes residuals of a stage again"},
      {Kind::Backward, "backward",
       "Computes the gradients of a stage's input and parameters"},
      {Kind::InputGradient, "input_gradient",
       "Computes the gradient of a stage's input"},
      {Kind::WeightGradient, "weight_gradient",
       "Computes the gradients of a stage's parameters"},
      {Kind::Update, "update", "Steps the parameters of a stage"},
      {Kind::Shard, "shard",
       "Computes a shard of the logits and what the softmax needs of it"},
      {Kind::ShardBackward, "shard_backward",
       "Computes the gradients of a shard of the logits"},
      {Kind::Data, "data", "Makes the input of the first stage"},
      {Kind::Target, "target", "Makes what the loss compares with"},
      {Kind::Loss, "loss",
       "Computes the loss and the gradient of the last output"}};
};

template <>
struct EnumNames<pipe::StageRole> {
  using Role = pipe::StageRole;
  static constexpr EnumName<Role> values[] = {
      {Role::Param, "param", "A parameter of the stage"},
      {Role::Input, "input", "The input of the stage"},
      {Role::Output, "output", "The output of the stage"},
      {Role::Residual, "residual", "What a later phase needs of an earlier"},
      {Role::OutputGradient, "output_gradient",
       "The gradient of the stage's output"},
      {Role::InputGradient, "input_gradient",
       "The gradient of the stage's input"},
      {Role::Gradient, "gradient", "The gradient of the parameter of its name"},
      {Role::State, "state", "State of the optimizer"},
      {Role::Target, "target", "What the loss compares with"},
      {Role::Loss, "loss", "The loss of a microbatch"},
      {Role::Microbatch, "microbatch", "The number of the microbatch"},
      {Role::Slice, "slice", "The number of the slice of its microbatch"},
      {Role::Step, "step", "The number of the step, from 0"},
      {Role::Earlier, "earlier",
       "The residual of its name of all slices of the microbatch"},
      {Role::EarlierGradient, "earlier_gradient",
       "The gradient of the pipe.earlier of its name"},
      {Role::Shard, "shard", "The number of the shard"},
      {Role::LastOutput, "last_output", "The output of the last stage"},
      {Role::LastOutputGradient, "last_output_gradient",
       "A shard's part of the gradient of the last output"},
      {Role::Partial, "partial", "What a shard tells all shards"},
      {Role::Partials, "partials",
       "The pipe.partial of its name of all shards"}};
};

} // namespace pipesched

#endif // PIPESCHED_DIALECT_PIPE_IR_STAGEROLES_H
