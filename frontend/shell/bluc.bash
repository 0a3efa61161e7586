# Completion of bluc for bash: source this file, or copy it to /usr/share/bash-completion/completions/bluc.
_bluc() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local options='-o -D --embed= --tokenizer= --cpu= --emit= --dump-after= --verify-each --poison --locations --time --holes --diagnostics= --explain --version --help'
  if [ "$before" = = ]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [ "$word" = = ]; then before=${COMP_WORDS[COMP_CWORD - 1]} word=; fi
  case $before in
    --cpu) COMPREPLY=($(compgen -W 'v2 v3 v4 native' -- "$word")); return ;;
    --emit) COMPREPLY=($(compgen -W 'ast blu grad opt kernels plan llvm asm obj program' -- "$word")); return ;;
    --diagnostics) COMPREPLY=($(compgen -W 'text json' -- "$word")); return ;;
    --documents) COMPREPLY=($(compgen -W 'file line' -- "$word")); return ;;
    -o | --embed | --tokenizer | --output | --validation-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
  esac
  case ${COMP_WORDS[1]} in fmt) options='--check --help' ;; verify) options="$options --seed= --rounds=" ;;
    tokenize) options='--tokenizer= --output= --validation= --validation-file= --documents= --separator= --ordinary --shard-tokens= --overwrite --quiet --help' ;;
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
    *) if [ "${COMP_WORDS[1]}" = tokenize ] && [ "$COMP_CWORD" -gt 1 ]; then COMPREPLY=($(compgen -f -- "$word")); return; fi ;;&
    *) COMPREPLY=($(compgen -f -X '!*.blu' -- "$word") $(compgen -d -- "$word"))
      if [ "$COMP_CWORD" = 1 ]; then COMPREPLY+=($(compgen -W 'check fmt tokenize verify' -- "$word")); fi ;;
  esac
}
complete -o filenames -o nospace -F _bluc bluc
