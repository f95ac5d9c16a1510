#!/bin/sh
# Runs fuzz targets, two at a time, and prints a line for each: run.sh FUZZER OUT SECONDS [TARGET...].
# What the fuzzer finds worth keeping goes to OUT/corpus, what is wrong to OUT/findings; nothing into the tree.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

# One target; called again by xargs below.
if [ "$1" = one ]; then
    fuzzer=$2 out=$3 seconds=$4 name=$5 bytes_max=$6
    log=$out/$name.log found=$out/findings/$name-
    mkdir -p "$out/corpus/$name" "$out/findings"
    rm -f "$found"*
    status=ok
    QINGLET_FUZZ=$name "$fuzzer" "$out/corpus/$name" "$here/corpus/$name" -max_total_time="$seconds" -timeout=5 \
        -rss_limit_mb=512 -max_len="$bytes_max" -artifact_prefix="$found" -print_final_stats=1 -verbosity=1 \
        >"$log" 2>&1 || status=FAILED
    stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -n 1; }
    coverage=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d' ' -f2)
    # What the process has after its first inputs and at its end; what our code holds is counted by the fuzzer itself.
    early=$(grep -o 'rss: [0-9]*' "$log" | head -n 1 | cut -d' ' -f2)
    printf '%-10s %12s %8s %8s %5s..%-5s %s\n' "$name" "$(stat number_of_executed_units)" "$(stat new_units_added)" \
        "${coverage:--}" "${early:--}" "$(stat peak_rss_mb)" "$status"
    if [ "$status" != ok ]; then
        for file in "$found"*; do
            [ -e "$file" ] && printf '    %s\n    again: QINGLET_FUZZ=%s %s %s\n' "$file" "$name" "$fuzzer" "$file"
        done
        printf '    %s:\n' "$log"
        grep -m 3 -A 1 -e panicked -e 'ERROR: libFuzzer' "$log" | sed 's/^/    /'
        exit 1
    fi
    exit 0
fi

fuzzer=$1 out=$2 seconds=$3
shift 3
mkdir -p "$out"
QINGLET_FUZZ=list "$fuzzer" >"$out/targets" 2>/dev/null
for name in "$@"; do
    grep -q "^$name " "$out/targets" || { echo "there is no fuzz target $name; there are" $(cut -d' ' -f1 "$out/targets") >&2; exit 2; }
done
printf '%-10s %12s %8s %8s %12s\n' target executions new coverage 'peak rss MB'
while read -r name bytes_max; do
    case " $* " in "  " | *" $name "*) echo "$name $bytes_max" ;; esac
done <"$out/targets" | xargs -P 2 -L 1 sh "$here/run.sh" one "$fuzzer" "$out" "$seconds" || {
    echo "A finding is fixed together with its input, kept as tests/fuzz/corpus/TARGET/NAME." >&2
    exit 1
}
