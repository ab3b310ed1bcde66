# Makes .venv and installs qwen38 into it; sourced by scripts/chat and scripts/test.
# usage: prepare_environment EXTRA   (EXTRA is "" or "[test]")

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/.venv"
torch_cpu="2.13.0"
torch_cpu_index="https://download.pytorch.org/whl/cpu"

say() { printf 'qwen38: %s\n' "$*" >&2; }

fail() {
    say "$1"
    say "$2"
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null 2>&1 &&
            "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    return 1
}

has_nvidia_gpu() { command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; }

# What an installed environment was made from; a change makes the next call install again.
fingerprint() {
    local device=cpu
    if has_nvidia_gpu; then device=gpu; fi
    { cat "$root/pyproject.toml" "$root/scripts/environment.sh"; echo "$1 $device"; } | cksum
}

# try_step WHAT COMMAND...: runs it, shows its last line of output on a terminal, keeps the log
try_step() {
    local what="$1" log="$venv/install.log" started=$SECONDS pid
    shift
    say "$what ..."
    "$@" >>"$log" 2>&1 &
    pid=$!
    trap 'kill $pid 2>/dev/null; exit 130' INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        [ -t 2 ] && printf '\r\033[K  %3d s  %.70s' "$((SECONDS - started))" "$(tail -n 1 "$log")" >&2
    done
    trap - INT TERM
    [ -t 2 ] && printf '\r\033[K' >&2
    wait "$pid" || return 1
    say "$what: done in $((SECONDS - started)) s"
}

# run_step WHAT COMMAND...: the same, and ends with what to do when it fails
run_step() {
    try_step "$@" && return
    tail -n 15 "$venv/install.log" >&2
    fail "$1 failed; the whole log is $venv/install.log." \
        "Check the network and the disk (about 3 GB are needed), then run the same command again."
}

install_torch() {
    local pip=("$venv/bin/python" -m pip install)
    if has_nvidia_gpu; then
        run_step "installing torch for the NVIDIA GPU (about 3 GB)" "${pip[@]}" "torch>=2.11,<2.14"
        return
    fi
    # PyTorch's own index has CPU builds of 200 MB where the general one may only have CUDA builds;
    # a machine that names a wheel folder of its own is served from there.
    if [ -z "${PIP_FIND_LINKS:-}" ] && try_step "installing torch $torch_cpu for the CPU (200 MB)" \
        "${pip[@]}" --index-url "$torch_cpu_index" "torch==$torch_cpu"; then
        return
    fi
    run_step "installing torch $torch_cpu" "${pip[@]}" "torch==$torch_cpu"
}

prepare_environment() {
    local extra="$1" mark="$venv/installed" python
    # The test extra holds everything the app needs, so a tested environment also serves the app.
    if [ -f "$mark" ] && { [ "$(cat "$mark")" = "$(fingerprint "$extra")" ] ||
        [ "$(cat "$mark")" = "$(fingerprint "[test]")" ]; }; then
        return
    fi
    python="$(find_python)" || fail "Python 3.11 to 3.13 was not found." \
        "Install one (on Debian or Ubuntu: apt install python3 python3-venv), or name it: PYTHON=/path/to/python3 $0"
    if [ ! -x "$venv/bin/python" ]; then
        say "making $venv with $("$python" --version)"
        "$python" -m venv "$venv" || fail "$python could not make $venv." \
            "On Debian or Ubuntu: apt install python3-venv, then run the same command again."
    fi
    rm -f "$mark"
    : >"$venv/install.log"
    "$venv/bin/python" -c 'import torch' 2>/dev/null || install_torch
    run_step "installing qwen38$extra" "$venv/bin/python" -m pip install --upgrade-strategy only-if-needed -e "$root$extra"
    fingerprint "$extra" >"$mark"
}
