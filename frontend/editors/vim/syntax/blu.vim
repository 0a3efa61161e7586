" Vim syntax of the Blu language. Copy the folder editors/vim into ~/.vim.
if exists("b:current_syntax")
  finish
endif

syntax keyword bluDeclaration import const run let var fn module param state cache train entry optimizer frozen
syntax keyword bluStatement for in if else from per
syntax keyword bluOperator and or not
syntax keyword bluType float f32 f64 bf16 f16 i32 i64 u8 bool
syntax keyword bluConstant true false training pi inf zeros ones
syntax match bluSetting "^\s*\(loss\|clip_norm\|epochs\|stop\|accumulate\|precision\|loss_scale\|tf32\)\ze\s*="
syntax match bluSetting "^\s*metric\ze\s"
syntax match bluNumber "\<\d\+\(\.\d\+\)\?\([eE][+-]\?\d\+\)\?\>"
syntax match bluFunction "\(\<fn\s\+\|\<module\s\+\|\<optimizer\s\+\|\<entry\s\+\)\@<=\h\w*"
syntax match bluSymbol ":=\|->\|\.\."
syntax region bluString start=+"+ skip=+\\.+ end=+"+ oneline
syntax match bluComment "//.*$" contains=@Spell

highlight default link bluDeclaration Keyword
highlight default link bluStatement Statement
highlight default link bluOperator Operator
highlight default link bluType Type
highlight default link bluConstant Constant
highlight default link bluSetting Identifier
highlight default link bluNumber Number
highlight default link bluFunction Function
highlight default link bluSymbol Operator
highlight default link bluString String
highlight default link bluComment Comment

setlocal commentstring=//\ %s shiftwidth=2 expandtab
let b:current_syntax = "blu"
