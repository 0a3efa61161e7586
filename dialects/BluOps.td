// BluOps.td - the records of the op set: name, meaning, operands, attributes, assembly. The rule of an op (shapes,
// gradient, reference, lowering) is the C struct `blu_rule_<name>` in the file ops_<family>.c. See docs/hacking.md.
#ifndef BLU_OPS
#define BLU_OPS
include "mlir/IR/OpBase.td"
include "mlir/IR/CommonTypeConstraints.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def Blu_Dialect : Dialect {
  let name = "blu";
  let cppNamespace = "::blu";
  let summary = "tensor programs that train";
  // Plain attributes: C code reads and writes them by name through the C API.
  let usePropertiesForAttributes = 0;
}

// Types and attributes are judged by the C rule, for the language and for IR alike.
def Blu_Checked : NativeOpTrait<"Checked"> { let cppNamespace = "::blu"; }
def Blu_Tensor : Type<CPred<"::llvm::isa<::mlir::RankedTensorType>($_self)">, "tensor">;
// Lists of dimensions or axes, integers, flags, numbers, element types.
defvar Ints = DenseI64ArrayAttr;
defvar Int = I64Attr;
defvar Flag = BoolAttr;
defvar Real = F64Attr;
defvar Elem = TypeAttr;

class Blu_Op<string mnemonic, dag args, list<Trait> traits = []>
    : Op<Blu_Dialect, mnemonic, !listconcat([Blu_Checked], traits)> {
  let arguments = args;
  bit builtin = 1; // a function of the language by this name
}
class Blu_Value<string mnemonic, dag args, list<Trait> traits = []> : Blu_Op<mnemonic, args, !listconcat([Pure], traits)> {
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

// ---- elementwise ----
class Blu_Unary<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$x), [SameOperandsAndResultType]> {
  let summary = means;
  let assemblyFormat = "$x attr-dict `:` type($result)";
}
def Blu_NegOp     : Blu_Unary<"neg", "-x">;
def Blu_AbsOp     : Blu_Unary<"abs", "|x|">;
def Blu_FloorOp   : Blu_Unary<"floor", "largest integer that is not greater than x">;
def Blu_ExpOp     : Blu_Unary<"exp", "e^x">;
def Blu_LogOp     : Blu_Unary<"log", "natural logarithm: NaN below 0, -inf at 0">;
def Blu_SqrtOp    : Blu_Unary<"sqrt", "square root: NaN below 0">;
def Blu_RsqrtOp   : Blu_Unary<"rsqrt", "1 / sqrt(x)">;
def Blu_SinOp     : Blu_Unary<"sin", "sine of x in radians; in f32 NaN where |x| > 2^20">;
def Blu_CosOp     : Blu_Unary<"cos", "cosine of x in radians; in f32 NaN where |x| > 2^20">;
def Blu_TanhOp    : Blu_Unary<"tanh", "hyperbolic tangent">;
def Blu_SigmoidOp : Blu_Unary<"sigmoid", "1 / (1 + e^-x)">;
def Blu_ReluOp    : Blu_Unary<"relu", "x where x > 0, else 0; NaN stays NaN; the gradient at 0 is 0">;
def Blu_NotOp     : Blu_Unary<"not", "logical not"> { let builtin = 0; }

class Blu_Binary<string mnemonic, string means, list<Trait> t = []>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$a, Blu_Tensor:$b), !listconcat([SameOperandsAndResultType], t)> {
  let summary = means;
  let assemblyFormat = "$a `,` $b attr-dict `:` type($result)";
}
def Blu_AddOp     : Blu_Binary<"add", "a + b", [Commutative]> { let builtin = 0; }
def Blu_SubOp     : Blu_Binary<"sub", "a - b"> { let builtin = 0; }
def Blu_MulOp     : Blu_Binary<"mul", "a * b", [Commutative]> { let builtin = 0; }
def Blu_DivOp     : Blu_Binary<"div", "a / b"> { let builtin = 0; }
def Blu_PowOp     : Blu_Binary<"pow", "a^b">;
def Blu_MaximumOp : Blu_Binary<"maximum", "the greater of a and b; NaN if either is NaN">;
def Blu_MinimumOp : Blu_Binary<"minimum", "the lesser of a and b; NaN if either is NaN">;
def Blu_AndOp     : Blu_Binary<"and", "logical and", [Commutative]> { let builtin = 0; }
def Blu_OrOp      : Blu_Binary<"or", "logical or", [Commutative]> { let builtin = 0; }

class Blu_Compare<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$a, Blu_Tensor:$b)> {
  let summary = means;
  let builtin = 0;
}
def Blu_EqOp : Blu_Compare<"eq", "a == b, a bool">;
def Blu_NeOp : Blu_Compare<"ne", "a != b, a bool; true where either is NaN">;
def Blu_LtOp : Blu_Compare<"lt", "a < b, a bool">;
def Blu_LeOp : Blu_Compare<"le", "a <= b, a bool">;
def Blu_GtOp : Blu_Compare<"gt", "a > b, a bool">;
def Blu_GeOp : Blu_Compare<"ge", "a >= b, a bool">;

def Blu_WhereOp : Blu_Value<"where", (ins Blu_Tensor:$c, Blu_Tensor:$a, Blu_Tensor:$b)> {
  let summary = "a where c is true, else b; the branch not taken passes no gradient and no NaN";
}
def Blu_CastOp : Blu_Value<"cast", (ins Blu_Tensor:$x, Elem:$to)> {
  let summary = "x as element type `to`; float to integer truncates and saturates, NaN gives 0; bool gives 0 or 1";
  let builtin = 0;
}

// ---- made from indices, and moved ----
def Blu_ConstantOp : Blu_Value<"constant", (ins Real:$value, Elem:$elem, Ints:$shape)> {
  let summary = "one value everywhere";
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
  let builtin = 0;
}
def Blu_IotaOp : Blu_Value<"iota", (ins Ints:$shape, Int:$axis, Elem:$elem)> {
  let summary = "0, 1, 2, ... along one axis";
  let assemblyFormat = "attr-dict `:` functional-type(operands, results)";
  let builtin = 0;
}
def Blu_BroadcastOp : Blu_Value<"broadcast", (ins Blu_Tensor:$x, Ints:$shape)> {
  let summary = "x repeated to a shape: last dimensions aligned, sizes equal or 1 in x";
  let builtin = 0;
}
def Blu_ReshapeOp : Blu_Value<"reshape", (ins Blu_Tensor:$x, Ints:$shape)> {
  let summary = "the same elements in the same order under another shape";
  let builtin = 0;
}
def Blu_TransposeOp : Blu_Value<"transpose", (ins Blu_Tensor:$x, Ints:$perm)> {
  let summary = "dimension i of the result is dimension perm[i] of x";
  let builtin = 0;
}

// ---- reductions ----
class Blu_Reduce<string mnemonic, string means>
    : Blu_Value<mnemonic, (ins Blu_Tensor:$x, OptionalAttr<Ints>:$axis, OptionalAttr<Flag>:$keep)> {
  let summary = means;
}
def Blu_SumOp  : Blu_Reduce<"sum", "sum over axes (all, if none is given)">;
def Blu_MeanOp : Blu_Reduce<"mean", "mean over axes (all, if none is given)">;
def Blu_MaxOp  : Blu_Reduce<"max", "greatest over axes; NaN if any is NaN">;
def Blu_MinOp  : Blu_Reduce<"min", "least over axes; NaN if any is NaN">;
def Blu_ArgmaxOp : Blu_Value<"argmax", (ins Blu_Tensor:$x, OptionalAttr<Int>:$axis)> {
  let summary = "index (i32) of the first greatest element along an axis (the last, if none is given); the first NaN if there is one";
}

// ---- matrix product ----
def Blu_MatmulOp : Blu_Value<"matmul", (ins Blu_Tensor:$a, Blu_Tensor:$b, OptionalAttr<Flag>:$ta, OptionalAttr<Flag>:$tb)> {
  let summary = "a @ b: [.., m, k] @ [k, n] or [.., k, n] with the same `..`; ta, tb transpose the last two dimensions first";
  let description = [{An element is a chain of fused multiply-adds over ascending k that starts at 0 and restarts every 256; the
    partial sums are added in order.}];
  let builtin = 0;
}

// ---- composites: expanded before code is made, known by name until then ----
class Blu_Soft<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$x, OptionalAttr<Int>:$axis)> {
  let summary = means;
}
def Blu_SoftmaxOp    : Blu_Soft<"softmax", "e^x / sum e^x along an axis (the last, if none is given), stable for any x">;
def Blu_LogSoftmaxOp : Blu_Soft<"log_softmax", "log(softmax(x)), stable for any x">;
def Blu_CrossEntropyOp : Blu_Value<"cross_entropy", (ins Blu_Tensor:$logits, Blu_Tensor:$labels)> {
  let summary = "-log(softmax(logits)[label]) per row: logits [.., C], labels [..] in [0, C)";
}

// ---- random: Philox4x32-10, a function of key, stream and index alone ----
class Blu_Random<string mnemonic, string means> : Blu_Value<mnemonic, (ins Blu_Tensor:$key, Int:$stream, Ints:$shape)> {
  let summary = means;
  let builtin = 0;
}
def Blu_UniformOp : Blu_Random<"uniform", "uniform in [0, 1), multiples of 2^-24">;
def Blu_NormalOp  : Blu_Random<"normal", "normal with mean 0 and deviation 1 (Box-Muller)">;

// ---- the one op with an effect ----
def Blu_GuardOp : Blu_Op<"guard", (ins Variadic<Blu_Tensor>:$checked)> {
  let summary = "what follows changes parameters and state; it is left out when a checked value is not finite";
  let assemblyFormat = "operands attr-dict `:` type(operands)";
  let builtin = 0;
}
#endif
