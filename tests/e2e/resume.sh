# resume.sh - a run that was stopped and resumed is bit for bit the run that was never stopped.
. "$(dirname "$0")/common.sh"

compare() { # checkpoint
  same "$1" "$(hash_of "parts/$1")" "$(hash_of "once/$1")"
  same "metrics up to $1" "$(timeless parts)" "$(timeless once)"
}

compile "$top/models/fashion.blu" -o fashion
run 0 ./fashion train --steps 20 --out once --quiet
run 0 ./fashion train --steps 7 --out parts --quiet
run 0 ./fashion train --steps 20 --out parts --resume --threads 3 --quiet
compare step-20
# over the end of an epoch, which is at step 600
run 0 ./fashion train --steps 620 --out once --resume --quiet
run 0 ./fashion train --steps 595 --out parts --resume --threads 1 --quiet
run 0 ./fashion train --steps 605 --out parts --resume --quiet
run 0 ./fashion train --steps 620 --out parts --resume --quiet
compare step-620
run 0 ./fashion train --steps 620 --out parts --resume
says 'nothing to do'
finish
